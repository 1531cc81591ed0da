"""A plugin for the pytest that runs a notebook through nbval: writes down what nbval really did.

nbval leaves a comparison out in silence in several cases (a marker in the wrong place, a cell without an execution
count). So its own comparison function is watched, and the cells it was called for are written to the file that
``CUDALAB_WITNESS`` names, with what each cell printed.
"""

import json
import os
import sys

sys.modules["rfc3987_syntax"] = None  # its grammars take seconds, as in tests/conftest.py

import nbval.plugin

collected: list[int] = []
compared: list[int] = []
outputs: dict[int, list] = {}
"""By cell, what it gave in this run."""


def pytest_collection_modifyitems(items):
    collected.extend(item.cell_num for item in items)


def is_error_card(output):
    """Is it the card of an error, which recorded notebooks leave out?"""
    return "cudalab-error" in output.get("data", {}).get("text/html", "")


def _watch(original):
    def compare_outputs(self, test, *args, **kwargs):
        compared.append(self.cell_num)
        recorded = [output for output in test if not is_error_card(output)]
        return original(self, recorded, *args, **kwargs)

    return compare_outputs


nbval.plugin.IPyNbCell.compare_outputs = _watch(nbval.plugin.IPyNbCell.compare_outputs)


def _keep_outputs(original):
    def runtest(self):
        try:
            return original(self)
        finally:
            outputs[self.cell_num] = [dict(output) for output in self.test_outputs or ()]

    return runtest


nbval.plugin.IPyNbCell.runtest = _keep_outputs(nbval.plugin.IPyNbCell.runtest)


def pytest_sessionfinish():
    with open(os.environ["CUDALAB_WITNESS"], "w", encoding="utf-8") as file:
        json.dump({"collected": collected, "compared": compared, "outputs": outputs}, file)
