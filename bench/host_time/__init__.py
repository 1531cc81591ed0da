"""What calls from Python keep the host for: measured on a GPU, and read off the simulated device's clock.

python -m bench.host_time --out FILE.json [--seconds 85]

Each call is timed from an idle device (``idle``: one call, everything before it has ended) and behind a kernel that
only waits (``queued``: several calls in a row, none of which the device can start), three times: without a trace, with
CUPTI's records on, and inside ``cudalab.trace()``, which also follows the learner's lines. The call that does nothing
is timed in the same way; its time is part of every figure. Whole programs follow: chapter 11's pipeline, two threads
that enqueue at the same time, first uses of streams and kernels, and copies by size.

Figures are microseconds. The file is written again after each part, and a part that fails leaves its error there.
"""
