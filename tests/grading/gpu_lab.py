"""A small lab graded with ``--device gpu``, and what it is worth.

    python -m tests.grading.gpu_lab FOLDER [-- --jobs 8 --no-jail]

One student has all kernels of the course right. The others have one each that is wrong everywhere, or that knows the
simulated device by its young clock and is right there alone: on the GPU it gives wrong values, writes far outside, or
never ends. What they get, and what ``SAID`` has, is compared; the
grader's own files are left in ``FOLDER/grades``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cudalab.checks import exercises, find
from tests.checks.answers.answer import ROOT, solution_of
from tests.grading.handed_in import hand_in, scores

KERNELS = [exercise for exercise in exercises() if exercise.answer == "kernel"]
PYTHON = find("11.2")
SECONDS = 30
"""For one question."""
_CLOCK = (
    'unsigned long long now; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); if (now > 1000000000000000ull) '
)
"""A GPU's clock counts nanoseconds since 1970, the simulated device's since it was made."""
_RIGHT = "if (i < n) y[n - 1 - i] = x[i];"
HOSTILE = {
    "fault": "y[(1ll << 40) + i] = 1.0f;",
    "hang": "while (true) __nanosleep(100);",
    "other": "{ if (i < n) y[i] = x[i]; return; }",
}
"""By student, what the answer to 04.1 does on a GPU alone."""
SAID = {
    "fault": ("on the GPU: ",),
    "hang": ("more than", "timed out"),
    "other": ("on the GPU: y[0]",),
    "wrong": ("y[0]",),
}
"""By student, what may be said of 04.1, which gets no points. A GPU with a display ends a long kernel itself."""


def reverse(here: str) -> str:
    """04.1 with a statement behind the index."""
    return (
        '%%cuda reverse\nextern "C" __global__ void reverse(const float* x, float* y, int n)\n'
        f"{{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    {here}\n    {_RIGHT}\n}}\n"
    )


def hand_all_in(folder: Path) -> None:
    """What the students hand in."""
    for chapter in sorted({exercise.id[:2] for exercise in (*KERNELS, PYTHON)}):
        mine = [exercise for exercise in (*KERNELS, PYTHON) if exercise.id.startswith(chapter)]
        hand_in(folder, "right", {exercise.kernel: solution_of(exercise.id) for exercise in mine}, chapter)
    for student, statement in HOSTILE.items():
        hand_in(folder, student, {"reverse": reverse(_CLOCK + statement)})
    hand_in(folder, "wrong", {"reverse": solution_of("04.1").replace("n - 1 - i", "i")})


def settings(folder: Path) -> Path:
    """The lab: all kernels, and one answer in Python, which is graded on the simulated device."""
    path = folder / "lab.toml"
    path.write_text(f'title = "On a GPU"\nexercises = {[one.id for one in (*KERNELS, PYTHON)]}\nseed = 7\n')
    return path


def graded(folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    """Hand in and grade everything, in processes of the command's own; returns the scores by student and exercise."""
    submitted, out = folder / "submitted", folder / "grades"
    hand_all_in(submitted)
    command = [sys.executable, "-m", "cudalab", "grade", str(submitted), "--settings", str(settings(folder))]
    command += ["--out", str(out), "--device", "gpu", "--seconds", str(SECONDS), *options]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 3):  # 3: a question that was ended is for the teacher to see
        raise SystemExit(f"exit status {done.returncode}: {' '.join(command)}")
    return scores(out)


def differences(got: dict[str, dict[str, Any]]) -> list[str]:
    """What is not as it should be; empty where all is."""
    found = []
    for exercise in (*KERNELS, PYTHON):
        one = got[f"right/{exercise.id}"]
        if one["points"] != exercise.maximum:
            found.append(f"right/{exercise.id}: {one}")
    for student, texts in SAID.items():
        one = got[f"{student}/04.1"]
        if one["points"] or not any(text in json.dumps(one, ensure_ascii=False) for text in texts):
            found.append(f"{student}/04.1: {one}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("options", nargs="*", help="for `cudalab grade`, behind --")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    wrong = differences(graded(args.folder, *args.options))
    print("\n".join(wrong) or "all scores are what they should be", f"{time.monotonic() - began:.0f} s", sep="\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
