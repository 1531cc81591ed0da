"""What ``python -m cudalab exercises`` does to a solution notebook, as preprocessors for nbgrader's own command.

nbgrader's stock ``ClearSolutions`` knows ``### BEGIN SOLUTION`` and puts ``raise NotImplementedError`` in its place, in
CUDA C++ too; ``StarterFromSolution`` leaves the starter that stands beside the solution (``regions.py``). Solutions
say no points, which are those of the checks; ``PointsOfChecks`` enters them. In ``nbgrader_config.py``::

    from cudalab.grading.preprocessor import configure

    configure(get_config())
"""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor

from cudalab.grading.regions import REGION, starter, with_points


class StarterFromSolution(ClearSolutions):  # type: ignore[misc]  # nbgrader has no types
    """Leaves the starter's lines of a solution region; a region without a starter is cleared as nbgrader does."""

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """One cell."""
        if not REGION.search(cell.source + "\n"):
            result: tuple[Any, Any] = super().preprocess_cell(cell, resources, index)
            return result
        cell.source = starter(cell.source + "\n").rstrip("\n")
        return cell, resources


class PointsOfChecks(NbGraderPreprocessor):  # type: ignore[misc]
    """Enters the points of the exercises."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """A whole notebook."""
        return with_points(nb), resources


def configure(config: Any) -> None:
    """Let ``nbgrader generate_assignment`` use them, with all others of its own."""
    from nbgrader.converters.generate_assignment import GenerateAssignment

    stock = GenerateAssignment.preprocessors.default()
    ours = [StarterFromSolution if each is ClearSolutions else each for each in stock]
    config.GenerateAssignment.preprocessors = [PointsOfChecks, *ours]
