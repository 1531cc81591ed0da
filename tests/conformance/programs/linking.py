"""Modules linked from several pieces of PTX: ``cuLink…``."""

import ctypes
import tempfile

from cudalab import cudart, driver

from ..busy import device_memory, fetched
from ..program import code, program

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
TWICE = (
    HEAD
    + """
.global .align 4 .u32 own = 100;
.visible .func (.param .b32 result) twice(.param .b32 x) {
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [x];
    add.s32 %r2, %r1, %r1;
    ld.global.u32 %r3, [own];
    add.s32 %r2, %r2, %r3;
    st.param.b32 [result], %r2;
    ret;
}
"""
)
RUN = (
    HEAD
    + """
.extern .func (.param .b32 result) twice(.param .b32 x);
.global .align 4 .u32 own = 1000;
.visible .global .align 4 .u32 shared_number = 5;
.visible .entry run(.param .u64 out, .param .u32 x) {
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [x];
    cvta.to.global.u64 %rd2, %rd1;
    {
    .param .b32 value;
    .param .b32 found;
    st.param.b32 [value], %r1;
    call.uni (found), twice, (value);
    ld.param.b32 %r2, [found];
    }
    ld.global.u32 %r3, [own];
    add.s32 %r4, %r2, %r3;
    st.global.u32 [%rd2], %r4;
    ret;
}
"""
)
OTHER = (
    HEAD
    + """
.extern .global .align 4 .u32 shared_number;
.visible .entry other(.param .u64 out) {
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [shared_number];
    st.global.u32 [%rd2], %r1;
    ret;
}
"""
)
PTX = driver.CUjitInputType.CU_JIT_INPUT_PTX


def created():
    cudart.cudaFree(0)
    error, state = driver.cuLinkCreate(0, [], [])
    assert error.value == 0, error
    return state


def added(state, text):
    data = text.encode() + b"\0"
    return code(driver.cuLinkAddData(state, PTX, data, len(data), b"piece", 0, [], []))


def linked(*texts):
    """The codes of adding and completing, and the module where there is one."""
    state = created()
    codes = [added(state, text) for text in texts]
    answer = driver.cuLinkComplete(state)
    codes.append(code(answer))
    module = None
    if answer[0].value == 0:
        error, module = driver.cuModuleLoadData(int(answer[1]))
        codes.append(error.name)
        module = module if error.value == 0 else None
    codes.append(code(driver.cuLinkDestroy(state)))
    return codes, module


def launch(module, name, values, kinds):
    function = driver.cuModuleGetFunction(module, name)[1]
    answer = driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, (values, kinds), 0)
    cudart.cudaDeviceSynchronize()
    return code(answer)


@program("a kernel and a function that it calls, from two pieces; each has a variable of the same name of its own")
def two_pieces():
    result = {}
    for name, texts in (("in order", (TWICE, RUN)), ("the other way", (RUN, TWICE))):
        codes, module = linked(*texts)
        with device_memory(4) as out:
            kinds = ctypes.c_void_p, ctypes.c_uint
            result[name] = [codes, launch(module, b"run", (out, 21), kinds), fetched(out, 1).tolist()]
        driver.cuModuleUnload(module)
    return result


@program("a variable that two pieces share")
def shared_variable():
    codes, module = linked(TWICE, RUN, OTHER)
    with device_memory(4) as out:
        ran = [launch(module, b"other", (out,), (ctypes.c_void_p,)), fetched(out, 1).tolist()]
    count = driver.cuModuleGetFunctionCount(module)[1]
    driver.cuModuleUnload(module)
    return {"codes": codes, "ran": ran, "kernels": count}


@program("a piece alone, whose function is nowhere")
def undefined():
    return {"codes": linked(RUN)[0]}


@program("two pieces that define the same")
def defined_twice():
    return {"codes": linked(TWICE, TWICE)[0]}


@program("what is no PTX, and PTX with a mistake")
def wrong_pieces():
    return {"no PTX": linked("hello")[0], "mistake": linked(HEAD + ".visible .entry broken() { nonsense; }")[0]}


@program("nothing at all is linked; a link is completed twice; a piece comes too late")
def order_of_calls():
    result = {"nothing": linked()[0]}
    state = created()
    result["late"] = [added(state, TWICE), code(driver.cuLinkComplete(state)), code(driver.cuLinkComplete(state))]
    result["late"].append(added(state, RUN))
    result["destroyed"] = code(driver.cuLinkDestroy(state))
    return result


@program("a piece from a file; a file that is not there")
def files():
    state = created()
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(
            OTHER.replace(".extern .global .align 4 .u32 shared_number", ".global .align 4 .u32 shared_number = 9")
        )
        file.flush()
        codes = [code(driver.cuLinkAddFile(state, PTX, file.name.encode(), 0, [], []))]
    answer = driver.cuLinkComplete(state)
    codes.append(code(answer))
    error, module = driver.cuModuleLoadData(int(answer[1]))
    with device_memory(4) as out:
        codes += [error.name, launch(module, b"other", (out,), (ctypes.c_void_p,))]
        found = fetched(out, 1).tolist()
    codes.append(code(driver.cuLinkDestroy(state)))
    driver.cuModuleUnload(module)
    state = created()
    missing = code(driver.cuLinkAddFile(state, PTX, b"/nowhere/piece.ptx", 0, [], []))
    driver.cuLinkDestroy(state)
    return {"codes": codes, "found": found, "missing": missing}
