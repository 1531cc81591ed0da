"""Chapter 08's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Gain, Mutation, Printed, Sentence

LEAST_COMPARED = 11
CHAPTER = Chapter(
    "08_pinned_memory.ipynb",
    {
        "kinds": ["ok", "pinned"],
        "way-back": ["ok", "pinned", "predict-faster", "rates"],
        "pool": ["pinned"],
        "too-much": ["ok"],
        "flags": ["ok"],
        "device-pointer": ["ok", "pinned"],
        "zero-copy": ["pinned", "kernel-double"],
        "mended": ["ok", "pinned", "kernel-slowly", "predict-early", "too-early"],
        "looks-pinned": ["ok", "pinned"],
        "lost-update": ["pinned"],
        "two-counters": ["pinned", "lost-update"],
    },
)

MUTATIONS = [
    Mutation("kinds", "kinds", "ok(cudart.cudaHostUnregister(x.ctypes.data))\n", ""),
    Mutation("kinds", "kinds", "ok(cudart.cudaHostRegister(x.ctypes.data, size, cudart.cudaHostRegisterDefault))", ""),
    Mutation("kinds", "pinned", "cp.cuda.alloc_pinned_memory(size)", "bytearray(size)"),
    Mutation("way-back", "way-back", 'print(f"to {name}', 'ok(cudart.cudaStreamSynchronize(0)); print(f"to {name}'),
    Mutation("way-back", "way-back", '("pinned", locked)', '("pinned", pageable)'),
    Mutation("pool", "pool", "pinned(900)", "pinned(1100)"),
    Mutation("pool", "pool", "del first", ""),
    Mutation("too-much", "too-much", "1 << 50", "1 << 10"),
    Mutation("flags", "flags", "cudart.cudaHostAlloc(4096, flag)", "cudart.cudaHostAlloc(4096, 4)"),
    Mutation("flags", "flags", '"mapped": cudart.cudaHostAllocMapped', '"mapped": cudart.cudaHostAllocPortable'),
    Mutation("device-pointer", "device-pointer", "on_device - x", "on_device + 4 - x"),
    Mutation("device-pointer", "device-pointer", "plain = np.zeros(1024, np.float32)", "plain = x"),
    Mutation("zero-copy", "zero-copy", "cp.cuda.Device().synchronize()", ""),
    Mutation("zero-copy", "kernel-double", "2.0f * x[i]", "3.0f * x[i]"),
    Mutation("zero-copy", "kernel-double", "i += threads", "i += 2 * threads"),
    Mutation("mended", "mended", "ok(cudart.cudaStreamSynchronize(0))", "pass"),
    Mutation("mended", "kernel-slowly", "*y = v + 1.0f", "*y = v"),
    Mutation("looks-pinned", "looks-pinned", "x = pinned(1024)", "x = np.empty(1024, np.float32)"),
    Mutation("looks-pinned", "looks-pinned", "d.get()}", "d.get(out=x)}"),
    Mutation("lost-update", "lost-update", "seen + 1", "counter[0] + 1"),
    Mutation("lost-update", "lost-update", "seen = int(counter[0])", "seen = 7"),
    Mutation("two-counters", "two-counters", "cp.cuda.Device().synchronize()", ""),
    Mutation("two-counters", "lost-update", "atomicAdd(counter, 1)", "*counter += 1"),
]


def columns(run: Printed) -> tuple[list[float], list[float]]:
    """The second and the third column of a table whose cells are numbers; lines about 16 MiB stand below one."""
    numbers = Printed(run.text.partition("16 MiB, ")[0]).numbers
    return numbers[1::3], numbers[2::3]


def gap_grows(run: Printed) -> bool:
    copied, mapped = columns(run)
    gaps = [there - here for here, there in zip(copied, mapped, strict=True)]
    return -0.2 * copied[0] < gaps[0] < 0 < gaps[1] and gaps == sorted(gaps)


SENTENCES = [
    Sentence(
        "s2-why",
        "Small copies are slow from either kind",
        "rates",
        lambda run: max(run.numbers[1:3]) < 0.1 * columns(run)[0][-1],
    ),
    Sentence(
        "s2-why",
        "The larger the copy, the nearer pinned memory comes to what the bus can do.",
        "rates",
        lambda run: columns(run)[0] == sorted(columns(run)[0]),
    ),
    Sentence(
        "s2-why",
        "Pageable memory gets a third as far",
        "rates",
        lambda run: 0.25 < max(columns(run)[1]) / max(columns(run)[0]) < 0.42,
    ),
    Sentence(
        "s2-returns",
        "From pinned memory the call puts the copy into the queue and comes back",
        "returns",
        lambda run: run.after("pinned") < 0.2 * run.after("pinned", 1),
    ),
    Sentence(
        "s2-returns",
        "From pageable memory it comes back when nearly all the time is over",
        "returns",
        lambda run: run.after("pageable") > 0.9 * run.after("pageable", 1),
    ),
    Sentence(
        "s3-why",
        "To allocate and to free costs what about ten copies save.",
        "price",
        lambda run: 8 < run.after("it pays after") < 13,
    ),
    Sentence("s3-much", "Zero: the second array has the first one's memory", "pool", lambda run: run.numbers == [0]),
    Sentence("s4-combined", "No difference.", "combined", lambda run: abs(run.numbers[1] / run.numbers[0] - 1) < 0.05),
    Sentence(
        "s5-why",
        "Zero copy takes half to two thirds of the time.",
        "two-ways",
        lambda run: 0.5 < run.after("zero copy") / run.after("with copies") < 0.68,
    ),
    Sentence(
        "s5-when",
        "Read once, mapped memory wins a little. From the second pass on, copying first is faster, and with each pass "
        "the gap grows.",
        "passes",
        gap_grows,
    ),
    Sentence(
        "s5-rules",
        "Zero copy wins where few bytes travel",
        "tiny",
        lambda run: 2 * run.after("zero copy") < run.after("with copies"),
    ),
    Sentence(
        "s6-hazards",
        "The launch had returned, and the kernel was still busy.",
        "too-early",
        lambda run: run.after("at once:") == 0 and run.after("behind a wait:") == 42,
    ),
    Sentence("s7-count", "The thousand are lost.", "lost-update", lambda run: run.numbers == [1]),
]


GAINS = [
    Gain(
        "copies of 16 MiB from pinned memory against pageable",
        "rates",
        lambda run: run.after("16 MiB, pageable:") / run.after("16 MiB, pinned:"),
        least=2,
        most_off=0.35,  # the host stages pageable copies: those of two H200 took 1017 and 1291 µs, modelled are 914
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences, gains = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES, GAINS
    in_words = ("flags",)
