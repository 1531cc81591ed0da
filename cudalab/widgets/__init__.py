"""Controls of the course, on ipywidgets: predictions, questions, tuners. Each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalab.widgets.prediction import predict as predict
    from cudalab.widgets.question import quiz as quiz
    from cudalab.widgets.tuner import tune as tune

_HOME = {"predict": "prediction", "quiz": "question", "tune": "tuner"}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"cudalab.widgets has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"cudalab.widgets.{_HOME[name]}"), name)
