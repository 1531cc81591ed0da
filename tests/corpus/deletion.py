"""Takes every barrier, guard and atomic out of the corpus, one at a time, and asks the sanitizer.

    python -m tests.corpus.deletion [--only TEXT] [--jobs N]

A deletion that the sanitizer does not notice *survives*. `survivors.toml` holds the reasons why nothing is wrong
without it, or why it cannot be seen, as far as they were looked at; the others are printed as not explained.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .kernel import Entry, Launch, Site, load_corpus, sites
from .run import launch_plainly, module_of, run

SURVIVORS = Path(__file__).parent / "survivors.toml"
TIME_LIMIT = 2.0  # seconds a block may take: without an atomic a lock waits for ever


@dataclass(frozen=True)
class Deletion:
    """One site of one entry."""

    entry: str
    number: int
    """Of the entry's sites, from 0."""
    kind: str
    line: int
    text: str

    @property
    def key(self) -> str:
        return f"{self.entry}: {self.kind} {self.number}"


@dataclass(frozen=True)
class Verdict:
    deletion: Deletion
    rules: tuple[str, ...]
    """What the sanitizer said; empty when it said nothing."""
    refused: str = ""
    """The compiler's or the launch's error, where the program no longer runs at all."""

    @property
    def survives(self) -> bool:
        return not self.rules and not self.refused


def deletions(entries: dict[str, Entry] | None = None) -> Iterator[Deletion]:
    """Every site of every entry, in order."""
    for entry in (entries or load_corpus()).values():
        for number, site in enumerate(sites(entry.body)):
            yield Deletion(entry.name, number, site.kind, site.line, site.text.strip())


def examine(deletion: Deletion) -> Verdict:
    """Run the entry without the site, every launch under the sanitizer first."""
    import cudalab
    from cudalab import cp

    entry = load_corpus()[deletion.entry]
    site: Site = list(sites(entry.body))[deletion.number]
    rules: set[str] = set()

    def watched(kernel, grid, block, args, launch: Launch) -> None:  # type: ignore[no-untyped-def]
        report = cudalab.sanitize(kernel, grid, block, args, shared=launch.shared, time_limit=TIME_LIMIT)
        rules.update(finding.rule for finding in report.findings)
        if rules:
            raise Noticed
        launch_plainly(kernel, grid, block, args, launch)

    try:
        includes = "".join(f"#include <{header}>\n" for header in entry.headers)
        run(entry, module_of([entry], includes + site.mutant), launcher=watched, poison=False)
    except Noticed:
        pass
    except (
        cp.cuda.compiler.CompileException,
        cp.cuda.runtime.CUDARuntimeError,
        cp.cuda.driver.CUDADriverError,
    ) as error:
        return Verdict(deletion, tuple(sorted(rules)), str(error).splitlines()[0])
    finally:
        cudalab.reset()
    return Verdict(deletion, tuple(sorted(rules)))


class Noticed(Exception):
    """The sanitizer has found something, and the rest of the entry need not run."""


def explained() -> dict[str, str]:
    """Survivors and why they may, by `Deletion.key`."""
    return tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.deletion", description=__doc__)
    parser.add_argument("--only", default="", help="entries whose name holds this text")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    tasks = [deletion for deletion in deletions() if given.only in deletion.entry]
    counts = {"barrier": [0, 0], "guard": [0, 0], "atomic": [0, 0]}
    known = explained()
    with ProcessPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(examine, tasks, chunksize=4):
            deletion = verdict.deletion
            counts[deletion.kind][0] += 1
            counts[deletion.kind][1] += verdict.survives
            if verdict.survives:
                why = known.get(deletion.key, "NOT EXPLAINED")
                print(f"{deletion.key} (line {deletion.line}: {deletion.text}): {why}", flush=True)
            elif verdict.refused:
                print(f"{deletion.key} no longer runs: {verdict.refused}", flush=True)
    for kind, (total, alive) in counts.items():
        print(f"{kind}s: {total} taken out, {total - alive} noticed, {alive} survive")
    return 0


if __name__ == "__main__":
    sys.exit(main())
