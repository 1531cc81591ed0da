"""The cell magics ``%%cuda`` and ``%%isolated``.

``%%cuda NAME`` takes the rest of the cell as CUDA C++, compiles it, and binds the kernel to ``NAME``. It is short for
``NAME = cp.RawKernel(code, "NAME")``, which comes first in the course. Compile errors are raised, with the line
numbers of the cell: the magic's own line counts as line 1. What does not compile leaves ``NAME`` unbound; what
compiles and is doubtful is shown in a card below the cell (``cudalab.cells.doubts``).

``%%isolated`` runs a cell in a process of its own (``cudalab.cells.isolated``).
"""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class

from cudalab import backend
from cudalab.cells import doubts, isolated, reports
from cudalab.course import progress
from cudalab.sim.compiler.frontend.declaration import find_kernels
from cudalab.sim.machine.reports import card


class _Parser(argparse.ArgumentParser):
    """Options of a magic: mistakes are usage errors of IPython, and never end the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}\n{self.format_usage()}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise UsageError(message or self.format_help())


def _cuda_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%cuda", add_help=False)
    parser.add_argument("name", metavar="NAME", help="the kernel's name, which is bound in the notebook")
    parser.add_argument("--std", default=None, help="C++ standard, e.g. c++20")
    parser.add_argument("--instance", default=None, help="which instance of a template, e.g. 'scale<float>'")
    parser.add_argument("--option", action="append", default=[], help="one option for the compiler; may be repeated")
    parser.add_argument("--module", default=None, help="also bind the RawModule to this name, for its globals")
    return parser


def _isolated_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%isolated", add_help=False)
    parser.add_argument("device", nargs="?", default="", help="gpu, sim or sim:PROFILE (default: as this notebook)")
    parser.add_argument("--with", dest="names", default="", help="names whose values the cell gets: a,b")
    parser.add_argument("--time", type=float, default=isolated.TIME_LIMIT, help="seconds it may take")
    return parser


def _parse(parser: argparse.ArgumentParser, line: str) -> argparse.Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{parser.prog}: {error} in {line!r}") from None
    for index in reversed([index for index, word in enumerate(words[:-1]) if word == "--option"]):
        words[index : index + 2] = [f"--option={words[index + 1]}"]  # argparse takes -DN=4 for an option of its own
    return parser.parse_args(words)


def compiler_options(line: str) -> tuple[str, ...]:
    """What the line of a ``%%cuda`` cell hands to the compiler; UsageError for a line that is none."""
    args = _parse(_cuda_parser(), line)
    return (*args.option, *([f"--std={args.std}"] if args.std else []))


def bind_kernel(name: str, code: str, options: tuple[str, ...] = (), instance: str | None = None) -> Any:
    """Compile ``code`` and return its kernel ``name`` as a ``RawKernel``, or as the function of a ``RawModule`` where
    it is a C++ function or template, which is found by its name expression ``instance``."""
    cp = backend.cp
    if instance is None and any(kernel.name == name and kernel.c_linkage for kernel in find_kernels(code)):
        kernel = cp.RawKernel(code, name, options)
        try:
            kernel.compile()
        except cp.cuda.driver.CUDADriverError:
            if not _is_lost():
                raise
            print(
                f"{name} is compiled. The device is lost to an earlier error: run cudalab.reset() before you launch it."
            )
        return kernel
    return bind_module(name, code, options, instance or name).get_function(instance or name)


def _is_lost() -> bool:
    """Is the simulated device lost? It compiles nonetheless, and loads the kernel after the reset."""
    return backend.choice().kind == "sim" and backend.simulated_device().lost is not None


def bind_module(name: str, code: str, options: tuple[str, ...], expression: str) -> Any:
    """The ``RawModule`` of ``code``, compiled; its kernel is to be found as ``expression``."""
    linked = expression == name and any(kernel.name == name and kernel.c_linkage for kernel in find_kernels(code))
    module = backend.cp.RawModule(code=code, options=options, name_expressions=None if linked else [expression])
    module.compile()
    return module


@magics_class
class CudaMagics(Magics):  # type: ignore[misc]  # IPython is left out, see pyproject.toml
    """The magics of the course."""

    @cell_magic  # type: ignore[untyped-decorator]
    def cuda(self, line: str, cell: str) -> None:
        """Compile the cell as CUDA C++ and bind its kernel: ``%%cuda NAME [--std c++20] [--instance 'NAME<float>']``.

        ``--option`` hands one option to the compiler, ``--module M`` also binds the ``RawModule`` (its ``get_global``
        gives ``__constant__`` and ``__device__`` variables). What does not compile is raised as an exception whose
        lines are those of the cell; what compiles and looks like a mistake is a card below it.
        """
        args = _parse(_cuda_parser(), line)
        if not args.name.isidentifier():
            stem = args.name.partition("<")[0]
            if "<" in args.name and stem.isidentifier():
                raise UsageError(
                    f"%%cuda: an instance of a template is bound to the template's name; write %%cuda {stem} "
                    f"--instance '{args.name}'"
                )
            raise UsageError(f"%%cuda: {args.name!r} is no name; write the kernel's name after %%cuda")
        for name in (args.name, args.module):  # a kernel from before must not stand in for one that does not compile
            self.shell.user_ns.pop(name, None)
        kernels = [kernel.name for kernel in find_kernels(cell)]
        if args.name not in kernels:
            known = f"it declares {', '.join(kernels)}" if kernels else "it has no __global__ function"
            raise UsageError(f"%%cuda: the cell declares no kernel named {args.name!r}; {known}")
        options = compiler_options(line)
        # The magic's line is line 1 of the cell, so the code starts on line 2.
        code, expression = "\n" + cell, args.instance or args.name
        try:
            if args.module:
                module = bind_module(args.name, code, options, expression)
                self.shell.user_ns[args.module] = module
                self.shell.user_ns[args.name] = module.get_function(expression)
            else:
                self.shell.user_ns[args.name] = bind_kernel(args.name, code, options, args.instance)
        except backend.cp.cuda.compiler.CompileException as error:
            reports.uncompiled.add(args.name)
            raise error.with_traceback(None) from None  # the way through the libraries says nothing about the source
        reports.uncompiled.discard(args.name)
        if (number := reports.running_cell()) is not None:
            card.cell_of_kernel[args.name] = number
        doubts.show(self.shell.user_ns[args.name], number)

    @cell_magic  # type: ignore[untyped-decorator]
    def isolated(self, line: str, cell: str) -> None:
        """Run the cell in a process of its own: ``%%isolated [gpu|sim|sim:PROFILE] [--with a,b] [--time 30]``.

        The process knows cudalab's names, ``np`` and the values listed after ``--with``; what it binds is gone when it
        ends. Its output appears here; an exception, or the end of the process, is reported as text. How it ended is
        bound to ``_isolated``, as the exit code of a ``!command`` is to ``_exit_code``.
        """
        args = _parse(_isolated_parser(), line)
        names = [name for name in args.names.split(",") if name]
        missing = [name for name in names if name not in self.shell.user_ns]
        if missing:
            raise UsageError(f"%%isolated: --with names {', '.join(missing)}, which the notebook does not have")
        values = {name: self.shell.user_ns[name] for name in names}
        # As above: line 1 of the cell is the magic itself.
        result = isolated.run(
            "\n" + cell, device=args.device, values=values, time_limit=args.time, last=is_last_isolated(cell)
        )
        self.shell.user_ns["_isolated"] = result
        if result.error is not None:
            print(result.error)


def is_last_isolated(body: str) -> bool:
    """Is this the last ``%%isolated`` cell of the learner's notebook? Then a process for the next one would only take
    memory. False where that is not known: outside of a working copy, or in a notebook that has not been saved."""
    place = progress.here()
    if place is None:
        return False
    try:
        cells = json.loads(Path(*place).read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    bodies = [source.partition("\n")[2].strip() for source in sources if source.startswith("%%isolated")]
    return bool(bodies) and bodies[-1] == body.strip()


def register(shell: Any) -> None:
    """Make the magics known to an IPython shell, and let it show errors as cards."""
    shell.register_magics(CudaMagics)
    reports.install(shell)
