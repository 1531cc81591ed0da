"""``python -m tests.fuzz``: many random programs, or damaged sources, in processes that may crash or hang.

::

    python -m tests.fuzz --seeds 0:10000 --jobs 2             every program in plain code, and in one other way by turns
    python -m tests.fuzz --seeds 0:1000 --jobs 2 --all        … in every kind of native code and under the sanitizer
    python -m tests.fuzz --damaged 0:5000 --jobs 2            damaged PTX and CUDA C++
    python -m tests.fuzz --show 17                            the CUDA C++ of a seed
    python -m tests.fuzz --shrink 17 --stage traced           the smallest program found that still fails
    python -m tests.fuzz --record 0:1000 --jobs 16 --to FILE  on a real GPU, with CuPy: keep digests of the results

The exit status is 1 when anything differed, crashed or hung.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.fuzz import campaign


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=_range, help="seeds of random programs, FIRST:END")
    parser.add_argument("--damaged", type=_range, help="seeds of damaged sources, FIRST:END")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--all", action="store_true", help="every variant and the sanitizer for every program")
    parser.add_argument("--show", type=int, help="print the CUDA C++ of a seed")
    parser.add_argument("--shrink", type=int, help="make the program of a seed smaller while it fails")
    parser.add_argument("--stage", default="plain", help="what fails: a variant of native code, or sanitize")
    parser.add_argument("--record", type=_range, help="seeds to run on this machine's GPU")
    parser.add_argument("--to", help="where --record writes")
    options = parser.parse_args()
    if options.show is not None:
        from tests.fuzz.emit import module
        from tests.fuzz.generator import generate

        print(module([generate(options.show)]))
        return 0
    if options.shrink is not None:
        return campaign.shrink_seed(options.shrink, options.stage)
    if options.record is not None:
        from tests.fuzz import hardware

        return hardware.record(options.record, options.jobs, options.to)
    os.environ.setdefault("CUDALAB_CACHE", "off")  # nobody compiles these again
    failed = 0
    if options.seeds is not None:
        kind = "all" if options.all else "programs"
        failed += campaign.report(campaign.run(kind, options.seeds, options.jobs))
    if options.damaged is not None:
        failed += campaign.report(campaign.run("damaged", options.damaged, options.jobs))
    return 1 if failed else 0


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end) if end else int(first) + 1)


if __name__ == "__main__":
    sys.exit(main())
