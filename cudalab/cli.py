"""The command line: ``python -m cudalab …``. Each command lives in the module that it belongs to.

Modules are imported by the command that needs them, because ``setup`` runs before anything is installed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.course.working_copy import WorkingCopy


def _setup(args: argparse.Namespace) -> int:
    from cudalab.installation.environment import setup

    setup(args.venv, extra=args.extra)
    return 0


def _kernels(args: argparse.Namespace) -> int:
    from cudalab.installation.lab import list_kernels

    for folder in list_kernels():
        print(folder)
    return 0


def _lab(args: argparse.Namespace) -> int:
    from cudalab.installation.lab import start

    return start(args.notebook, browser=not args.no_browser, port=args.port, address=args.address)


def _copy(wanted: str | None) -> tuple[WorkingCopy, list[str]]:
    """The learner's copy, and the notebook of it that is ``wanted``; None: all."""
    from cudalab.course.working_copy import WorkingCopy
    from cudalab.installation.environment import SetupError, project_root
    from cudalab.installation.lab import WORK

    copy = WorkingCopy(project_root() / WORK)
    try:
        return copy, copy.names() if wanted is None else [copy.find(wanted)]
    except LookupError as error:
        raise SetupError(str(error)) from None


def _copy_command(args: argparse.Namespace) -> int:
    from cudalab.installation.lab import prepare

    print(prepare())
    return 0


def _changes(args: argparse.Namespace) -> int:
    copy, names = _copy(args.notebook)
    for name in names:
        print(copy.told_changes(name))
    return 0


def _start_over(args: argparse.Namespace) -> int:
    copy, (name,) = _copy(args.notebook)
    backup = copy.start_over(name)
    print(f"{name} is as it was at first." + (f" Your file is kept as {backup}." if backup else ""))
    return 0


def _progress(args: argparse.Namespace) -> int:
    from cudalab.course.outline import outline
    from cudalab.course.progress import Progress
    from cudalab.installation.environment import SetupError

    copy, names = _copy(args.count_anew or None)
    if args.count_anew is not None:
        copy.count_anew(names)
        print(f"From now on, no answer of before counts in {', '.join(names)}. All are kept.")
    elif args.export:
        try:
            text = Progress(copy.folder).export(args.export.suffix.removeprefix("."))
        except ValueError as error:
            raise SetupError(f"{args.export}: {error}") from None
        args.export.write_text(text, encoding="utf-8")
        print(f"Your answers are in {args.export}.")
    else:
        for part in (part for chapter in outline(copy) for part in chapter.parts if part.total):
            print(f"{part.answered:4} of {part.total:2}  {part.name}")
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from cudalab.doctor import examine

    report = examine()
    print(report)
    return 0 if report.healthy else 1


def _test(args: argparse.Namespace) -> int:
    from cudalab.dev.suite import run

    return run(which="long" if args.long else "gpu" if args.gpu else "", workers=args.workers, arguments=args.pytest)


def _record(args: argparse.Namespace) -> int:
    from cudalab.dev.record import record_all

    return record_all(args.notebooks, device=args.device, timeout=args.timeout, stale=args.stale)


def _calibrate(args: argparse.Namespace) -> int:
    from cudalab.dev.calibrate.command import calibrate

    return calibrate(args.out, name=args.name, measured=args.measured, keep=args.keep)


def _notebooks(args: argparse.Namespace) -> int:
    from cudalab.dev.notebook_format import check_all

    return check_all(args.notebooks, fix=args.fix)


def _lock(args: argparse.Namespace) -> int:
    from cudalab.dev.lock import lock

    lock()
    return 0


def _grading(command: str, arguments: Sequence[str]) -> int:
    """`grade` and `exercises` have their own options, in the grading package."""
    result: int = import_module("cudalab.grading.command").main([command, *arguments])
    return result


def parser() -> argparse.ArgumentParser:
    """All commands but those of the grading package, which are only named here."""
    top = argparse.ArgumentParser(prog="python -m cudalab", description=__doc__.split("\n")[0] if __doc__ else None)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    setup = commands.add_parser("setup", help="make the virtual environment from the lock file")
    setup.add_argument("--venv", type=Path, default=Path(".venv"), help="its folder (default: .venv)")
    setup.add_argument(
        "--extra", choices=["", "cuda12", "cuda13"], default=None, help="CuPy for this CUDA (default: as the driver)"
    )
    setup.set_defaults(run=_setup)

    kernels = commands.add_parser("kernels", help="add the CUDA kernels to JupyterLab's kernel picker")
    kernels.set_defaults(run=_kernels)

    lab = commands.add_parser("lab", help="open the course in JupyterLab")
    lab.add_argument("notebook", nargs="?", default=None, help="04, exercises/04, or a file (default: the start page)")
    lab.add_argument("--no-browser", action="store_true", help="print the address, open no browser")
    lab.add_argument("--port", type=int, default=8888)
    lab.add_argument("--address", default="localhost", help="address to listen at (0.0.0.0 in a container)")
    lab.set_defaults(run=_lab)

    copy = commands.add_parser("copy", help="make the learner's copy of the course, or bring it up to date")
    copy.set_defaults(run=_copy_command)

    changes = commands.add_parser("changes", help="say what you have changed in your copy of the course")
    changes.add_argument("notebook", nargs="?", help="04, exercises/04, or a file (default: all)")
    changes.set_defaults(run=_changes)

    over = commands.add_parser("start-over", help="start a notebook over; your file of before is kept with its date")
    over.add_argument("notebook", help="04, exercises/04, or a file")
    over.set_defaults(run=_start_over)

    progress = commands.add_parser("progress", help="say what you have answered, save it, or begin to count anew")
    only = progress.add_mutually_exclusive_group()
    only.add_argument("--export", type=Path, help="a file ending in .csv, or in .json: with the text of each attempt")
    only.add_argument(
        "--count-anew", nargs="?", const="", metavar="NOTEBOOK", help="answers of before no longer count, but are kept"
    )
    progress.set_defaults(run=_progress)

    doctor = commands.add_parser("doctor", help="say what is installed, which device is used and why")
    doctor.set_defaults(run=_doctor)

    test = commands.add_parser("test", help="run the tests")
    group = test.add_mutually_exclusive_group()
    group.add_argument("--long", action="store_true", help="the large corpora, fuzzing and soak")
    group.add_argument("--gpu", action="store_true", help="what needs a GPU")
    test.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    test.add_argument("pytest", nargs="*", help="files, or options after `--`, for pytest")
    test.set_defaults(run=_test)

    record = commands.add_parser("record", help="run notebooks on a GPU and store their outputs")
    record.add_argument("notebooks", nargs="*", type=Path, help="(default: all)")
    record.add_argument("--device", default="gpu", help="another CUDALAB_DEVICE, for a look (default: gpu)")
    record.add_argument("--timeout", type=int, default=300, help="seconds a cell may take (default: 300)")
    record.add_argument("--stale", action="store_true", help="keep stored outputs that still fit their code")
    record.set_defaults(run=_record)

    calibrate = commands.add_parser(
        "calibrate", help="measure this machine's GPU and write a profile for the simulated device"
    )
    calibrate.add_argument("--out", type=Path, default=None, help="the profile to write (default: only print)")
    calibrate.add_argument("--name", default="measured", help="the profile's name (default: measured)")
    calibrate.add_argument("--measured", type=Path, default=None, help="fit these figures instead of measuring")
    calibrate.add_argument("--keep", type=Path, default=None, help="store the measured figures in this file")
    calibrate.set_defaults(run=_calibrate)

    notebooks = commands.add_parser("notebooks", help="check the rules that every notebook keeps")
    notebooks.add_argument("notebooks", nargs="*", type=Path, help="(default: all)")
    notebooks.add_argument("--fix", action="store_true", help="draw the drawings, write the canonical form")
    notebooks.set_defaults(run=_notebooks)

    lock = commands.add_parser("lock", help="renew lock files and environment.yml from pyproject.toml")
    lock.set_defaults(run=_lock)

    commands.add_parser("grade", help="grade submissions (`grade --help`)", add_help=False)
    commands.add_parser("exercises", help="write exercises/ from solutions/", add_help=False)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    from cudalab.installation.environment import SetupError

    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given and given[0] in ("grade", "exercises"):
            return _grading(given[0], given[1:])
        args = parser().parse_args(given)
        code: int = args.run(args)
    except SetupError as error:
        print(f"{given[0]}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    return code
