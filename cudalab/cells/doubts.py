"""What is doubtful in a ``%%cuda`` cell that compiles, as one card below the cell.

CuPy says nothing of what compiles, and ``cp.RawKernel`` keeps to that. A ``%%cuda`` cell shows those few warnings of
the compiler that tell of a mistake (``cudalab.sim.compiler.frontend.cautions``).

On the simulated device the compiler's log is there already. CuPy's is not to be had without another module, whose
``__device__`` variables begin anew, and is empty whenever CuPy finds the kernel in its cache; so on a GPU the cell is
compiled once more by the compiler that the simulated device has, which keeps what it made. What goes wrong there is
no concern of the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from IPython.display import display

from cudalab import backend
from cudalab.sim.compiler.frontend.cautions import Caution, cautions
from cudalab.sim.machine.reports import card

_MOST = 3  # places that one card tells of
_TITLE = "This compiles, but look again"


def show(kernel: Any, cell: int | None) -> None:
    """Show what is doubtful in the source of ``kernel``, which cell number ``cell`` has bound; mostly nothing."""
    found = cautions(log_of(kernel), kernel.code)
    if found:
        display({"text/html": html(found, cell), "text/plain": text(found)}, raw=True)


def log_of(kernel: Any) -> str:
    """What the compiler says of a kernel, or of a ``RawModule``, that compiles; empty where that cannot be had."""
    from cudalab.sim.compiler import CompileError, CompilerUnavailable, compile
    from cudalab.sim.compiler.frontend.options import ARCHITECTURE
    from cudalab.sim.compiler.frontend.targets import architecture

    ours = ARCHITECTURE
    if backend.choice().kind == "sim":
        properties = backend.simulated_device().properties
        ours = architecture(properties["major"], properties["minor"])
    try:
        expressions = kernel.name_expressions or ()
        return compile(kernel.code, options=kernel.options, name_expressions=expressions, architecture=ours).log
    except (CompileError, CompilerUnavailable):
        return ""


def html(found: Sequence[Caution], cell: int | None) -> str:
    """The card."""
    first, *more = found
    if not more:
        return card.card(
            "warning",
            f"{_TITLE}: {first.text}",
            kind="warning",
            where=_where(first, cell),
            code=[(first.line, first.code)],
            rule=first.rule,
            advice=first.advice,
        )
    passages = [
        card.passage(
            where=f"{_where(one, cell)}: {one.text}",
            code=[(one.line, one.code)],
            rule=one.rule,
            advice=one.advice,
        )
        for one in found[:_MOST]
    ]
    left = len(found) - len(passages)
    title = f"{_TITLE} at {len(found)} places" + (f", of which the first {_MOST} are" if left else "")
    return card.card("warning", title, kind="warning", body="".join(passages))


def text(found: Sequence[Caution]) -> str:
    """The same where there is no page to show a card on."""
    left = f"\n… and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "\n".join(f"{_TITLE}: {one}" for one in found[:_MOST]) + left


def _where(one: Caution, cell: int | None) -> str:
    return f"In[{cell}], line {one.line}" if cell is not None else f"line {one.line}"
