"""Chapter 05's compared cells: each agrees with its stored output, and notices a mistake in the code that feeds it."""

from __future__ import annotations

from tests.notebooks.chapter import Chapter, ComparedCells, Gain, Mutation, Printed, Sentence

LEAST_COMPARED = 6
_RUN = ["ok", "kernel-subtract", "aside-limits", "aside-set", "set-window"]
CHAPTER = Chapter(
    "05_l2_persistence.ipynb",
    {
        "aside-limits": ["ok"],
        "aside-set": ["ok", "aside-limits"],
        "set-window": ["ok", "kernel-subtract"],
        "reset": _RUN,
        "all-steps": _RUN,
        "refused": _RUN,
    },
)

MUTATIONS = [
    Mutation("aside-limits", "aside-limits", "0.75", "0.5"),
    Mutation("aside-limits", "aside-limits", "cudaLimitPersistingL2CacheSize", "cudaLimitMaxL2FetchGranularity"),
    Mutation("aside-set", "aside-set", "largest + 1", "largest"),
    Mutation("aside-set", "aside-set", "    return ok(cudart.cudaDeviceGetLimit(kind))", "    return size"),
    Mutation("set-window", "set-window", "size * MiB", "size << 10"),
    Mutation("set-window", "set-window", "ratio, hit, miss\n", "ratio, miss, hit\n"),
    Mutation("set-window", "set-window", "set_window(a, background, 24)", "set_window(b, background, 24)"),
    Mutation("reset", "reset", 'set_window(a, background, 0)\nprint("num', 'set_window(b, background, 0)\nprint("num'),
    Mutation("reset", "reset", "set_aside(0)", "set_aside(1)"),
    Mutation("reset", "reset", "ok(cudart.cudaCtxResetPersistingL2Cache())", "set_aside(0)"),
    Mutation("all-steps", "all-steps", "np.int32(pixels), np.int32(pixels)", "np.int32(pixels), np.int32(1)"),
    Mutation("all-steps", "all-steps", "min(1.0, reserved / seen.nbytes)", "reserved / seen.nbytes"),
    Mutation("all-steps", "kernel-subtract", "0.5f * level + 0.5f * x", "0.4f * level + 0.6f * x"),
    Mutation("refused", "refused", "accessPolicyMaxWindowSize + 1", "accessPolicyMaxWindowSize"),
    Mutation("refused", "refused", "hitRatio=75", "hitRatio=0.75"),
    Mutation("refused", "refused", "missProp=PERSISTING", "missProp=NORMAL"),
    Mutation("refused", "refused", "num_bytes=100 * MiB", "num_bytes=1000 * MiB"),
]


def _of(run: Printed, table: int) -> float:
    """µs with a table of so many MiB."""
    return run.after(f"background of {table:2} MiB:")


SENTENCES = [
    Sentence(
        "s1-explain",
        "With 24 MiB most of the background is lost",
        "tables",
        lambda run: _of(run, 24) > 1.1 * _of(run, 8) and _of(run, 16) < (_of(run, 8) + _of(run, 24)) / 2,
    ),
    Sentence(
        "s2-rules",
        "a sixteenth of the L2, 3,932,160 bytes",
        ("aside-set", "aside-limits"),
        lambda run, limits: run.after("asked for          1 bytes, got") == 3932160 == limits.after("L2 cache:") / 16,
    ),
    Sentence(
        "s3-explain",
        "The background stays, and only the frames come from DRAM and go back there.",
        "with-window",
        lambda run: (
            run.after("with one") < 1.15 * run.after("8 MiB it took")
            and run.after("without a window") > 1.1 * run.after("with one")
        ),
    ),
    Sentence(
        "s4-explain",
        "With ratio 1 the window costs time.",
        "compare-ratio",
        lambda run: run.after("hit ratio 1:") > 1.03 * run.after("without a window:"),
    ),
    Sentence(
        "s4-explain",
        "A smaller ratio is better.",
        "compare-ratio",
        lambda run: run.after("; hit ratio", 1) < 0.97 * run.after("hit ratio 1:"),
    ),
    Sentence(
        "s4-explain",
        "The best ratio is below 30/40 = 0.75",
        "compare-ratio",
        lambda run: run.after("; hit ratio") < 0.75,
    ),
    Sentence(
        "s4-hits",
        "With ratio 0.5 more of the look-ups hit",
        "hits",
        lambda run: (
            run.after("40 MiB, ratio 0.5:") > run.after("40 MiB, ratio 0.75:") > run.after("40 MiB, ratio 1.0:")
        ),
    ),
    Sentence(
        "s5-explain",
        "On an H200 much of the 16 MiB is gone after 48 MiB of normal reads.",
        "streaming",
        lambda run: run.after("normal:") > 1.2 * run.after("at once:"),
    ),
    Sentence(
        "s5-explain",
        "After 48 MiB of streaming reads it is all still there",
        "streaming",
        lambda run: run.after("streaming:") < 1.1 * run.after("at once:"),
    ),
    Sentence(
        "s3-read",
        "103 µs with and without",
        ("read-only", "setup"),
        lambda run, device: "simulated" in device.text or run.after("of  0 MiB:") == run.after("of 24 MiB:") == 103,
    ),
    Sentence(
        "s9-stream",
        "It is slower than with nothing set aside",
        ("other-stream", "nothing-aside"),
        lambda run, aside: run.after("in stream b:") > 1.2 * aside.after("nothing set aside:"),
    ),
    Sentence(
        "s6-explain",
        "the gain is larger here than that of one stream above",
        ("two-streams", "with-window"),
        lambda run, one: (
            run.after("of  0 MiB:") / run.after("of 24 MiB:")
            > 1.05 * one.after("without a window") / one.after("with one")
        ),
    ),
    Sentence(
        "s7-ways",
        "every read takes longer",
        "left-over",
        lambda run: run.after("still persist:") > 1.2 * run.after("after a reset:"),
    ),
    Sentence(
        "s2-ask",
        "11.25 MiB on an H200",
        "aside-limits",
        lambda run: run.after("set aside at first:", 1) == 11.25,
    ),
    Sentence(
        "s9-aside",
        "Without a set-aside, persisting lines are treated like normal ones.",
        "nothing-aside",
        lambda run: (
            abs(run.after("nothing set aside:") / run.after("neither:") - 1) < 0.08
            and run.after("nothing set aside:") > 1.1 * run.after("30 MiB set aside:")
        ),
    ),
]


GAINS = [
    Gain(
        "a window for 24 MiB of background",  # 1.6 was hoped for: the chapter says what an H200 shows
        ("tables", "with-window"),
        lambda tables, run: run.after("without a window") / run.after("with one"),
        least=1.15,
    ),
]


class TestComparedCells(ComparedCells):
    chapter, mutations, least, sentences, gains = CHAPTER, MUTATIONS, LEAST_COMPARED, SENTENCES, GAINS
