"""Which instances of template kernels to compile: those that the file's host code launches, else a plain guess."""

from __future__ import annotations

import re

_TEMPLATE = re.compile(
    r"template\s*<(?P<parameters>[^{};]*?)>\s*(?:static\s+|inline\s+|extern\s*\"C\"\s*)*__global__"
    r"[^;{(]*?(?:__launch_bounds__\s*\([^)]*\)[^;{(]*?)?\b(?!__launch)(?P<name>\w+)\s*\(",
    re.DOTALL,
)
MOST = 2
"""Instances of one kernel."""


def candidates(text: str) -> dict[str, list[str]]:
    """For each template kernel of the source, name expressions to try, the likeliest first."""
    found: dict[str, list[str]] = {}
    for template in _TEMPLATE.finditer(text):
        name = template.group("name")
        launched = re.findall(rf"\b{name}\s*<([^<>;]+(?:<[^<>]*>)?)>\s*<<<", text)
        expressions = [f"{name}<{' '.join(arguments.split())}>" for arguments in dict.fromkeys(launched)]
        expressions.append(f"{name}<{', '.join(_guess(p, text) for p in template.group('parameters').split(','))}>")
        found.setdefault(name, expressions)
    return found


def _guess(parameter: str, text: str) -> str:
    """A type or number for a parameter; where the source has a type of a similar name (PayoffPut for Payoff), that."""
    if of_type := re.match(r"\s*(?:class|typename)\s+(\w\w\w+)", parameter):
        similar = re.search(rf"\b(?:struct|class)\s+({of_type.group(1)}\w+)\s*{{", text)
        return similar.group(1) if similar else "float"
    if re.match(r"\s*(class|typename)\b", parameter):
        return "float"
    return "true" if "bool" in parameter else "32"
