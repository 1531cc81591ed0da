"""Answers to 04.8."""

from __future__ import annotations

from tests.checks.answers.answer import Right, Wrong, table

_E, _C, _S = "efficiency", "correctness", "soundness"
_LEFT, _WAITS = "allocations left", "calls that wait for the device, or ask it"
_BESIDE = "pairs of a consumer and the next producer that nothing orders (%)"
_LOOP = "    for k in range(count):\n"
_ALLOCATE = "        error, scratch = cudart.cudaMallocAsync(size, first.ptr)\n"
_WAIT = "        second.wait_event(first.record())\n"
_CONSUME = "        consume(k, scratch, second)\n"
_FREE = "        cudart.cudaFreeAsync(scratch, second.ptr)\n"
_ONE_FOR_ALL = f"""
def in_two_stages(count, size, produce, consume, first, second):
    error, scratch = cudart.cudaMallocAsync(size, first.ptr)
    for k in range(count):
        produce(k, scratch, first)
{_WAIT}{_CONSUME}    cudart.cudaFreeAsync(scratch, second.ptr)
"""
_TAKING_TURNS = f"""
def in_two_stages(count, size, produce, consume, first, second):
    room = [cudart.cudaMallocAsync(size, first.ptr)[1] for _ in range(2)]
    done = []
    for k in range(count):
        scratch = room[k % 2]
        if k >= 2:
            first.wait_event(done[k - 2])
        produce(k, scratch, first)
{_WAIT}{_CONSUME}        done.append(second.record())
    for scratch in room:
{_FREE}"""

ANSWERS_04_8 = table(
    "04.8",
    Right(
        "all freed at the end",
        (
            (_LOOP, "    room = []\n" + _LOOP),
            (_FREE, "        room.append(scratch)\n    for scratch in room:\n" + _FREE),
        ),
    ),
    Right(
        "first frees when all is consumed",
        (
            (_LOOP, "    room = []\n" + _LOOP),
            (
                _FREE,
                "        room.append(scratch)\n    first.wait_event(second.record())\n    for scratch in room:\n"
                + _FREE.replace("second", "first"),
            ),
        ),
    ),
    Right(
        "a stream that only frees",
        (
            (_LOOP, "    last = cp.cuda.Stream(non_blocking=True)\n" + _LOOP),
            (_FREE, "        last.wait_event(second.record())\n" + _FREE.replace("second", "last")),
        ),
    ),
    Right("two pieces that take turns", source=_TAKING_TURNS),
    Right(
        "one piece with room for all",
        (
            (_ALLOCATE, "        scratch = room + k * size\n"),
            (_LOOP, "    error, room = cudart.cudaMallocAsync(count * size, first.ptr)\n" + _LOOP),
            (_FREE, "    cudart.cudaFreeAsync(room, second.ptr)\n"),
        ),
    ),
    Right(
        "the driver's names",
        (
            ("cudart.cudaMallocAsync(size, first.ptr)", "driver.cuMemAllocAsync(size, first.ptr)"),
            ("cudart.cudaFreeAsync(scratch, second.ptr)", "driver.cuMemFreeAsync(scratch, second.ptr)"),
        ),
    ),
    Right("from the last item", ((_ALLOCATE, _ALLOCATE + "        k = count - 1 - k\n"),)),
    Wrong("freed in first", ((_FREE, _FREE.replace("second", "first")),), _S, "cudaErrorIllegalAddress"),
    Wrong("freed in the NULL stream", ((_FREE, _FREE.replace("second.ptr", "0")),), _S, "cudaErrorIllegalAddress"),
    Wrong(
        "freed in first, one item later",
        (
            (_LOOP, "    room = []\n" + _LOOP),
            (_FREE, ""),
            (_WAIT, "        if room:\n            cudart.cudaFreeAsync(room.pop(), first.ptr)\n" + _WAIT),
            (_CONSUME, _CONSUME + "        room.append(scratch)\n    cudart.cudaFreeAsync(scratch, second.ptr)\n"),
        ),
        _S,
        "hazard",
        mistake="says nothing about second",
    ),
    Wrong("freed before it is read", ((_CONSUME + _FREE, _FREE + _CONSUME),), _S, "cudaErrorIllegalAddress"),
    Wrong("never freed", ((_FREE, ""),), _E, _LEFT),
    Wrong(
        "the last one is kept",
        ((_FREE, "        if k < count - 1:\n    " + _FREE),),
        _E,
        _LEFT,
    ),
    Wrong("freed twice", ((_FREE, 2 * _FREE),), _S, "refused free"),
    Wrong("cudaFree", ((_FREE, "        cudart.cudaFree(scratch)\n"),), _E, _WAITS),
    Wrong(
        "the host waits for the device",
        ((_FREE, "        cudart.cudaDeviceSynchronize()\n" + _FREE.replace("second", "first")),),
        _E,
        _WAITS,
    ),
    Wrong(
        "the host waits for second",
        ((_FREE, "        second.synchronize()\n" + _FREE.replace("second", "first")),),
        _E,
        _WAITS,
    ),
    Wrong(
        "the host asks until second is done",
        ((_FREE, "        while not second.done:\n            pass\n" + _FREE.replace("second", "first")),),
        _E,
        _WAITS,
    ),
    Wrong(
        "first waits for each consumer",
        ((_FREE, "        first.wait_event(second.record())\n" + _FREE.replace("second", "first")),),
        _E,
        _BESIDE,
    ),
    Wrong(
        "all in one stream",
        ((_WAIT, ""), ("scratch, second)", "scratch, first)"), ("second.ptr", "first.ptr")),
        _E,
        _BESIDE,
    ),
    Wrong("no wait for the producer", ((_WAIT, ""),), _S, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    Wrong("one piece for all items", (), _S, "hazard", source=_ONE_FOR_ALL),
    Wrong("half as large", (("cudaMallocAsync(size", "cudaMallocAsync(size // 2"),), _C, "no scratch memory"),
    Wrong(
        "memory of the host",
        ((_ALLOCATE, "        error, scratch = cudart.cudaHostAlloc(size, 0)\n"), (_FREE, "")),
        _C,
        "no scratch memory",
        cheat=True,
    ),
    Wrong("nothing at all", ((_LOOP, _LOOP.replace("count", "0")),), _C, "wrong values", cheat=True),
    Wrong(
        "a reset at the end",
        ((_FREE, "        if k == count - 1:\n            cudart.cudaDeviceReset()\n"),),
        _S,
        "device reset",
        cheat=True,
    ),
    Wrong(
        "nothing done for many items",
        ((_LOOP, "    if count > 3:\n        return\n" + _LOOP),),
        _C,
        "wrong values",
        mistake="no item is consumed",
        cheat=True,
    ),
    Wrong(
        "the sample's number of items",
        ((_LOOP, _LOOP.replace("count", "4")),),
        _S,
        "IndexError",
        cheat=True,
    ),
)
