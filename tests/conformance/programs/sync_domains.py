"""Memory synchronisation domains: what streams and launches say, and that results do not depend on them."""

import numpy as np

from cudalab import cp, cudart, driver

from ..busy import attribute, launched, streams
from ..program import code, program

SOURCE = r"""
extern "C" __global__ void pass_on(volatile int* from, volatile int* data, volatile int* to,
                                   int number, long long most) {
    long long start = clock64();
    while (*from != number) if (clock64() - start > most) { data[1] = number; return; }
    __threadfence_system();
    data[0] = data[0] + number;
    __threadfence_system();
    *to = number + 1;
}
extern "C" __global__ void add(int* out, int value) { atomicAdd(out, value); }
"""
DEFAULT, REMOTE = 0, 1
_ID = driver.CUlaunchAttributeID


def kernel(name):
    made = cp.RawKernel(SOURCE, name)
    made.compile()
    return made


def domain(number):
    kinds = (
        driver.CUlaunchMemSyncDomain.CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT,
        driver.CUlaunchMemSyncDomain.CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE,
    )
    return attribute("MEM_SYNC_DOMAIN", memSyncDomain=kinds[number])


def mapped(default, remote):
    return attribute("MEM_SYNC_DOMAIN_MAP", memSyncDomainMap__default_=default, memSyncDomainMap__remote=remote)


def of_stream(stream):
    """The domain and the map that a stream answers."""
    _, value = driver.cuStreamGetAttribute(driver.CUstream(stream), _ID.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
    _, pair = driver.cuStreamGetAttribute(driver.CUstream(stream), _ID.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
    return [int(value.memSyncDomain), int(pair.memSyncDomainMap.default_), int(pair.memSyncDomainMap.remote)]


def give(stream, number=None, default=0, remote=1):
    """Sets a stream's domain, or the map when no number is given: the code."""
    value = driver.CUstreamAttrValue()
    if number is None:
        value.memSyncDomainMap.default_, value.memSyncDomainMap.remote = default, remote
        return code(
            driver.cuStreamSetAttribute(driver.CUstream(stream), _ID.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, value)
        )
    value.memSyncDomain = domain(number).value.memSyncDomain
    return code(driver.cuStreamSetAttribute(driver.CUstream(stream), _ID.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, value))


@program(
    "two kernels in different domains hand a number to and fro through fences of the system: none is lost",
    expect=lambda v: {"data": [1 + 2 + 3 + 4, 0]},
)
def messages_between_domains():
    pass_on = kernel("pass_on")
    flags, data = cp.zeros(8, cp.int32), cp.zeros(2, cp.int32)
    flags[0] = 1
    cudart.cudaDeviceSynchronize()
    with streams(1, 1, 1, 1) as made:
        codes = [
            launched(
                pass_on, [domain(number % 2)], flags.data.ptr + 4 * number, data.data.ptr,
                flags.data.ptr + 4 * number + 4, np.int32(number + 1), 400_000_000, stream=stream,
            )
            for number, stream in enumerate(made)
        ]  # fmt: skip
        codes.append(code(cudart.cudaDeviceSynchronize()))
    return {"codes": codes, "data": [int(value) for value in data.get()]}


@program("a stream's domain and map as they are, set, and set wrongly; the default stream, too")
def domains_of_streams():
    with streams(1) as (stream,):
        found = {"new": of_stream(stream)}
        found["remote"] = [give(stream, 1), of_stream(stream)]
        found["map"] = [give(stream, default=2, remote=3), of_stream(stream)]
        found["too large"] = [give(stream, default=4, remote=0), of_stream(stream)]
        found["last"] = code(cudart.cudaGetLastError())
        found["another"] = of_stream(0)
    return found


@program(
    "launches inherit their stream's domain, or have one of their own: sums are right",
    expect=lambda v: {"sum": sum(range(1, 9))},
)
def launches_in_domains():
    add, out = kernel("add"), cp.zeros(1, cp.int32)
    cudart.cudaDeviceSynchronize()
    with streams(1, 1) as made:
        codes = [give(made[0], 1)]
        for number in range(8):
            wanted = [[], [domain(0)], [domain(1), mapped(0, 3)], [mapped(1, 1)]][number % 4]
            codes.append(launched(add, wanted, out.data.ptr, np.int32(number + 1), stream=made[number // 4]))
        codes.append(code(cudart.cudaDeviceSynchronize()))
        found = [of_stream(stream) for stream in made]
    return {"codes": sorted(set(codes)), "sum": int(out[0]), "streams": found}


@program("attributes of a stream are copied to another one, domain and map among them")
def copied_to_another_stream():
    with streams(1, 1) as (one, other):
        codes = [
            give(one, 1),
            give(one, default=1, remote=2),
            code(driver.cuStreamCopyAttributes(driver.CUstream(other), driver.CUstream(one))),
        ]
        return {"codes": codes, "other": of_stream(other)}
