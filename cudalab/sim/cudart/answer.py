"""How functions of the runtime answer: ``(cudaError_t, values…)``."""

from __future__ import annotations

from cuda.bindings.runtime import cudaError_t

from cudalab.sim import binding

api = binding.answering(cudaError_t.cudaSuccess, lambda error: error.code)
"""Decorator: ``@api(n)`` for a function that returns ``n`` values besides the error."""
