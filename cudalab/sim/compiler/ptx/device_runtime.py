"""Functions of the device runtime that programs may call, as PTX.

A program declares them, and the driver links them in when it loads the module. ``cudaGraphSetConditional`` stores what
a conditional node of a graph decides by. Its handle is opaque in CUDA; on the simulated device it is the address of
that value, so a kernel that sets it is one that stores there, to the hazard report as to everybody else.

In the same way the handle of a kernel node that kernels update is the address of what it launches
(``device/graphs/updatable.py``): is it switched on (at 0, 4 bytes), the grid in x, y and z (4, 8, 12), the size of the
parameters in bytes (16, 8 bytes), the parameters (24).
"""

NODE_ENABLED, NODE_GRID, NODE_SIZE, NODE_PARAMETERS = 0, 4, 16, 24
"""Where in the memory of a node that kernels update."""
_SUCCESS, _INVALID_VALUE = 0, 1
_GRID, _PARAMETER, _ENABLED = 1, 2, 3
"""``cudaGraphKernelNodeField``"""


def _check_grid(x: str, y: str, z: str) -> str:
    """Instructions that go to ``$ended`` when there is no such grid; they use %r5 and %p3."""
    return "\n".join(
        f"""    sub.s32 %r5, {size}, 1;
    setp.gt.u32 %p3, %r5, {most - 1};
    @%p3 bra $ended;"""
        for size, most in ((x, 0x7FFF_FFFF), (y, 0xFFFF), (z, 0xFFFF))
    )


def _store_parameter(node: str, value: str, size: str, end: str) -> str:
    """Instructions that store bytes in the parameters of a node, and then go to ``end``; they use %rs1, %rd8, %rd9 and
    %p8."""
    return f"""    mov.u64 %rd8, 0;
$byte:
    setp.ge.u64 %p8, %rd8, {size};
    @%p8 bra {end};
    add.s64 %rd9, {value}, %rd8;
    ld.u8 %rs1, [%rd9];
    add.s64 %rd9, {node}, %rd8;
    st.u8 [%rd9+{NODE_PARAMETERS}], %rs1;
    add.s64 %rd8, %rd8, 1;
    bra.uni $byte;"""


DEFINITIONS = {
    "cudaGraphSetConditional": """
.visible .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [handle];
    ld.param.u32 %r1, [value];
    st.u32 [%rd1], %r1;
    ret;
}
""",
    "cudaGraphKernelNodeSetEnabled": f"""
.visible .func (.param .b32 code) cudaGraphKernelNodeSetEnabled(.param .b64 node, .param .b32 enable)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [node];
    ld.param.u8 %r1, [enable];
    mov.u32 %r2, {_INVALID_VALUE};
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra $ended;
    st.u32 [%rd1+{NODE_ENABLED}], %r1;
    mov.u32 %r2, {_SUCCESS};
$ended:
    st.param.b32 [code], %r2;
    ret;
}}
""",
    "cudaGraphKernelNodeSetGridDim": f"""
.visible .func (.param .b32 code) cudaGraphKernelNodeSetGridDim(.param .b64 node, .param .align 4 .b8 grid[12])
{{
    .reg .pred %p<5>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [node];
    ld.param.u32 %r1, [grid];
    ld.param.u32 %r2, [grid+4];
    ld.param.u32 %r3, [grid+8];
    mov.u32 %r4, {_INVALID_VALUE};
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra $ended;
{_check_grid("%r1", "%r2", "%r3")}
    st.u32 [%rd1+{NODE_GRID}], %r1;
    st.u32 [%rd1+{NODE_GRID + 4}], %r2;
    st.u32 [%rd1+{NODE_GRID + 8}], %r3;
    mov.u32 %r4, {_SUCCESS};
$ended:
    st.param.b32 [code], %r4;
    ret;
}}
""",
    "cudaGraphKernelNodeSetParam": f"""
.visible .func (.param .b32 code) cudaGraphKernelNodeSetParam(
    .param .b64 node, .param .b64 offset, .param .b64 value, .param .b64 size
)
{{
    .reg .pred %p<9>;
    .reg .b16 %rs<2>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [node];
    ld.param.u64 %rd2, [offset];
    ld.param.u64 %rd3, [value];
    ld.param.u64 %rd4, [size];
    mov.u32 %r1, {_INVALID_VALUE};
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra $ended;
    ld.u64 %rd5, [%rd1+{NODE_SIZE}];
    setp.lt.u64 %p2, %rd5, %rd2;
    @%p2 bra $ended;
    sub.s64 %rd5, %rd5, %rd2;
    setp.lt.u64 %p3, %rd5, %rd4;
    @%p3 bra $ended;
    mov.u32 %r1, {_SUCCESS};
    add.s64 %rd1, %rd1, %rd2;
{_store_parameter("%rd1", "%rd3", "%rd4", "$ended")}
$ended:
    st.param.b32 [code], %r1;
    ret;
}}
""",
    # Each update has 40 bytes: node (8), field (4, at 8), and at 16 a grid (12), or value, offset, size (8 each), or
    # whether it is switched on (4). It looks at all of them before it makes any.
    "cudaGraphKernelNodeUpdatesApply": f"""
.visible .func (.param .b32 code) cudaGraphKernelNodeUpdatesApply(.param .b64 updates, .param .b64 count)
{{
    .reg .pred %p<12>;
    .reg .b16 %rs<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd10, [updates];
    ld.param.u64 %rd11, [count];
    mov.u32 %r4, {_INVALID_VALUE};
    setp.eq.u64 %p1, %rd10, 0;
    @%p1 bra $ended;
    mov.u64 %rd1, %rd10;
    mov.u64 %rd2, %rd11;
$look:
    setp.eq.u64 %p1, %rd2, 0;
    @%p1 bra $right;
    ld.u64 %rd3, [%rd1];
    setp.eq.u64 %p1, %rd3, 0;
    @%p1 bra $ended;
    ld.u32 %r7, [%rd1+8];
    setp.eq.u32 %p2, %r7, {_ENABLED};
    @%p2 bra $looked;
    setp.eq.u32 %p2, %r7, {_PARAMETER};
    @%p2 bra $look_at_parameter;
    setp.ne.u32 %p2, %r7, {_GRID};
    @%p2 bra $ended;
    ld.u32 %r1, [%rd1+16];
    ld.u32 %r2, [%rd1+20];
    ld.u32 %r3, [%rd1+24];
{_check_grid("%r1", "%r2", "%r3")}
    bra.uni $looked;
$look_at_parameter:
    ld.u64 %rd5, [%rd1+24];
    ld.u64 %rd6, [%rd1+32];
    ld.u64 %rd7, [%rd3+{NODE_SIZE}];
    setp.lt.u64 %p6, %rd7, %rd5;
    @%p6 bra $ended;
    sub.s64 %rd7, %rd7, %rd5;
    setp.lt.u64 %p7, %rd7, %rd6;
    @%p7 bra $ended;
$looked:
    add.s64 %rd1, %rd1, 40;
    sub.s64 %rd2, %rd2, 1;
    bra.uni $look;
$right:
    mov.u32 %r4, {_SUCCESS};
    mov.u64 %rd1, %rd10;
    mov.u64 %rd2, %rd11;
$update:
    setp.eq.u64 %p1, %rd2, 0;
    @%p1 bra $ended;
    ld.u64 %rd3, [%rd1];
    ld.u32 %r7, [%rd1+8];
    setp.eq.u32 %p2, %r7, {_PARAMETER};
    @%p2 bra $parameter;
    ld.u32 %r1, [%rd1+16];
    setp.eq.u32 %p2, %r7, {_ENABLED};
    @%p2 bra $enabled;
    ld.u32 %r2, [%rd1+20];
    ld.u32 %r3, [%rd1+24];
    st.u32 [%rd3+{NODE_GRID}], %r1;
    st.u32 [%rd3+{NODE_GRID + 4}], %r2;
    st.u32 [%rd3+{NODE_GRID + 8}], %r3;
    bra.uni $updated;
$enabled:
    setp.ne.u32 %p5, %r1, 0;
    selp.u32 %r1, 1, 0, %p5;
    st.u32 [%rd3+{NODE_ENABLED}], %r1;
    bra.uni $updated;
$parameter:
    ld.u64 %rd4, [%rd1+16];
    ld.u64 %rd5, [%rd1+24];
    ld.u64 %rd6, [%rd1+32];
    add.s64 %rd3, %rd3, %rd5;
{_store_parameter("%rd3", "%rd4", "%rd6", "$updated")}
$updated:
    add.s64 %rd1, %rd1, 40;
    sub.s64 %rd2, %rd2, 1;
    bra.uni $update;
$ended:
    st.param.b32 [code], %r4;
    ret;
}}
""",
}
