"""Chapter 09."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_PLAIN = "atomicAdd(total, mine);"

WRONG = (
    *table(
        "09.visits",
        Wrong("the other one", ((_PLAIN, "atomicAdd_block(total, mine);"),), "soundness", "race"),
        Wrong("no atomic at all", ((_PLAIN, "*total += mine;"),), "soundness", "race"),
        Wrong(
            "every thread adds", (("if (threadIdx.x == 0) atomicAdd(", "atomicAdd("),), "correctness", "wrong values"
        ),
    ),
    *table(
        "09.publish",
        Wrong("a release alone", (("memory_order_acquire", "memory_order_relaxed"),), "soundness", "race"),
        Wrong("an acquire alone", (("memory_order_release", "memory_order_relaxed"),), "soundness", "race"),
        Wrong("of the block's scope", (("thread_scope_device", "thread_scope_block"),), "soundness", "race"),
        Wrong(
            "volatile data, and no order",
            (
                ("int* data", "volatile int* data"),
                ("order_acquire", "order_relaxed"),
                ("order_release", "order_relaxed"),
            ),
            "soundness",
            "race",
        ),
    ),
    *table(
        "09.total",
        Wrong("the first fence only", (("    __threadfence();\n    if", "    if"),), "soundness", "race"),
        Wrong("the second fence only", (("    __threadfence();\n    bool", "    bool"),), "soundness", "race"),
        Wrong(
            "volatile parts, and no fence",
            (("int* parts", "volatile int* parts"), ("    __threadfence();\n", "")),
            "soundness",
            "race",
        ),
        Wrong(
            "atomic parts, and no fence",
            (
                ("parts[blockIdx.x] = sum", "atomicExch(&parts[blockIdx.x], sum)"),
                ("all += parts[b]", "all += atomicAdd(&parts[b], 0)"),
                ("    __threadfence();\n", ""),
            ),
            "soundness",
            "race",
        ),
        Wrong("the first block adds up", (("gridDim.x - 1", "0"),), "soundness", "race"),
    ),
    *table(
        "09.shift",
        Wrong("a barrier", (("cg::wait(block)", "__syncthreads()"),), "soundness", "race"),
        Wrong("a fence", (("cg::wait(block)", "__threadfence()"),), "soundness", "race"),
        Wrong("to the right", (("threadIdx.x + 1", "threadIdx.x + 127"),), "correctness", "wrong values"),
    ),
)
