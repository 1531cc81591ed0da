"""Functions of the device runtime that programs may call, as PTX.

A program declares them, and the driver links them in when it loads the module. ``cudaGraphSetConditional`` stores what
a conditional node of a graph decides by. Its handle is opaque in CUDA; on the simulated device it is the address of
that value, so a kernel that sets it is one that stores there, to the hazard report as to everybody else.
"""

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
}
