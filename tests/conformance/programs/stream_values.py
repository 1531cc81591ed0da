"""Streams that write a value to memory, and that wait for one (the driver's stream memory operations)."""

import numpy as np

from cudalab import cudart, driver

from ..busy import device_memory, event_state, events, fetched, pinned_memory, seen, spin, state, streams, warm
from ..program import code, program

WAIT, WRITE = driver.CUstreamWaitValue_flags, driver.CUstreamWriteValue_flags
GEQ, EQ = WAIT.CU_STREAM_WAIT_VALUE_GEQ, WAIT.CU_STREAM_WAIT_VALUE_EQ


def wait(stream, address, value, flags=GEQ):
    return code(
        driver.cuStreamWaitValue32(
            driver.CUstream(stream), driver.CUdeviceptr(address), driver.cuuint32_t(value), int(flags)
        )
    )


def write(stream, address, value, flags=0):
    return code(
        driver.cuStreamWriteValue32(
            driver.CUstream(stream), driver.CUdeviceptr(address), driver.cuuint32_t(value), int(flags)
        )
    )


@program("a stream writes values in order", expect=lambda v: {"out": [7, 8]})
def writing():
    warm()
    with streams(1) as (stream,), device_memory(8) as memory:
        spin(stream)
        codes = [write(stream, memory, 6), write(stream, memory, 7), write(stream, memory + 4, 8)]
        early = state(stream)
        cudart.cudaStreamSynchronize(stream)
        return {"codes": codes, "early": early, "out": fetched(memory, 2).tolist()}


@program("a stream waits until another one has written the value")
def waiting_for_a_stream():
    warm()
    with streams(1, 1) as (waiter, writer), device_memory(8) as memory, events(1) as (event,):
        waited = wait(waiter, memory, 3)
        cudart.cudaEventRecord(event, waiter)
        spin(writer, cycles=20_000_000)
        written = [write(writer, memory, 3)]
        before = event_state(event)
        cudart.cudaEventSynchronize(event)
        return {"codes": [waited, *written], "before": before, "writer": state(writer) in ("idle", "busy")}


@program("a stream waits until the host has written the value to page-locked memory")
def waiting_for_the_host():
    warm()
    with streams(1) as (stream,), pinned_memory(8) as (pointer, _), device_memory(4) as memory:
        value = seen(pointer, 8, np.uint32)
        codes = [wait(stream, pointer, 5), write(stream, memory, 1)]
        before = state(stream)
        value[0] = 5
        codes.append(code(cudart.cudaStreamSynchronize(stream)))
        return {"codes": codes, "before": before, "out": fetched(memory, 1).tolist()}


@program("conditions of waiting: at least, equal, and, nor; true at once")
def conditions():
    conditions = (GEQ, EQ, WAIT.CU_STREAM_WAIT_VALUE_AND, WAIT.CU_STREAM_WAIT_VALUE_NOR)
    with streams(1) as (stream,), device_memory(4) as memory:
        write(stream, memory, 6)
        codes = [
            wait(stream, memory, value, flags) for value, flags in zip((5, 6, 2, 0xFFFFFFF8), conditions, strict=True)
        ]
        return {"codes": codes, "sync": code(cudart.cudaStreamSynchronize(stream))}


@program("a wait for at least a value compares around the end of the numbers")
def cyclic_comparison():
    with streams(1) as (stream,), device_memory(4) as memory:
        write(stream, memory, 5)
        done = wait(stream, memory, 0xFFFFFFFF, GEQ)
        return {"code": done, "sync": code(cudart.cudaStreamSynchronize(stream))}


@program("an event behind a wait is pending until the wait is over, and other streams go on")
def others_go_on():
    warm()
    with streams(1, 1) as (waiter, other), device_memory(4) as memory, events(2) as (held, free):
        wait(waiter, memory, 1)
        cudart.cudaEventRecord(held, waiter)
        cudart.cudaEventRecord(free, other)
        cudart.cudaEventSynchronize(free)
        before = [event_state(held), event_state(free)]
        write(other, memory, 1)
        cudart.cudaEventSynchronize(held)
        return {"before": before, "after": event_state(held)}


@program("64-bit values", expect=lambda v: {"out": [0x1234567890]})
def wide_values():
    with streams(1) as (stream,), device_memory(8) as memory:
        handle, address = driver.CUstream(stream), driver.CUdeviceptr(memory)
        codes = [
            code(driver.cuStreamWriteValue64(handle, address, driver.cuuint64_t(0x1234567890), 0)),
            code(driver.cuStreamWaitValue64(handle, address, driver.cuuint64_t(0x1234567000), int(GEQ))),
            code(cudart.cudaStreamSynchronize(stream)),
        ]
        return {"codes": codes, "out": fetched(memory, 1, np.int64).tolist()}


@program("stream memory operations that are wrong: null, unaligned, pageable, flags")
def wrong_operations():
    host = np.zeros(4, np.uint32)
    with streams(1) as (stream,), device_memory(16) as memory:
        result = {
            "write null": write(stream, 0, 1),
            "write unaligned": write(stream, memory + 2, 1),
            "write pageable": write(stream, host.ctypes.data, 1),
            "write flags": write(stream, memory, 1, 77),
            "wait null": wait(stream, 0, 0),
            "wait unaligned": wait(stream, memory + 1, 0),
            "wait flags": wait(stream, memory, 0, 0x100),
            "no barrier": write(stream, memory, 2, WRITE.CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
            "sync": code(cudart.cudaStreamSynchronize(stream)),
        }
        return {**result, "out": fetched(memory, 1).tolist()}


@program("stream memory operations in the null stream, and one that orders blocking streams")
def in_the_null_stream():
    with streams(0, 1) as (blocking, free), device_memory(4) as memory, events(1) as (event,):
        codes = [wait(0, memory, 1)]
        cudart.cudaEventRecord(event, blocking)
        before = event_state(event)
        codes.append(write(free, memory, 1))
        cudart.cudaEventSynchronize(event)
        return {"codes": codes, "before": before, "after": event_state(event)}
