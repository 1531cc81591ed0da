"""Takes every barrier, fence, guard and atomic out of the corpus, one at a time, and asks the sanitizer.

    python -m tests.corpus.deletion [--only TEXT] [--jobs N] [--out FILE.json]

All launches of the entry run under the sanitizer, with its awkward data too; when nothing was found, once more with the
threads in a shuffled order. A deletion that is not noticed *survives*, and `survivors.toml` says why it may. Some
mutants do not run at all, because the compiler or the launch refuses them; they are counted apart.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .kernel import PLAIN, Entry, Launch, Site, load_corpus, sites
from .run import launch_plainly, module_of, run, verify

SURVIVORS = Path(__file__).parent / "survivors.toml"
TIME_LIMIT = 2.0  # seconds a block may take: without an atomic a lock waits for ever
SHUFFLED = 1  # the seed of the second order
WORDS = {"barrier": "barriers", "fence": "fences", "guard": "guards", "atomic": "atomics"}


@dataclass(frozen=True)
class Deletion:
    """One site of one entry."""

    entry: str
    number: int
    """Of the entry's sites, from 0."""
    kind: str
    line: int
    """Of the entry's body, from 1."""
    text: str

    @property
    def key(self) -> str:
        return f"{self.entry}: {self.kind} {self.number}"


@dataclass(frozen=True)
class Verdict:
    """What became of the entry without the site."""

    deletion: Deletion
    findings: tuple[tuple[str, int], ...] = ()
    """The sanitizer's rules, each with its line in the entry's body (0: in the code that stands for an atomic)."""
    shuffled: bool = False
    """Seen only with the threads in another order."""
    refused: str = ""
    """The compiler's or the launch's error, where the program no longer runs at all."""
    wrong: str = ""
    """Of a survivor: how its result differs from NumPy's."""

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(sorted({rule for rule, _ in self.findings}))

    @property
    def survives(self) -> bool:
        return not self.findings and not self.refused


class Noticed(Exception):
    """The sanitizer has found something, and the rest of the entry need not run."""


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
    try:
        for seed in (None, SHUFFLED):
            findings = _findings(entry, site, seed)
            if findings:
                return Verdict(deletion, findings, seed is not None)
        return Verdict(deletion, wrong=_wrong(entry, site))
    except (
        cp.cuda.compiler.CompileException,
        cp.cuda.runtime.CUDARuntimeError,
        cp.cuda.driver.CUDADriverError,
    ) as error:
        return Verdict(deletion, refused=str(error).splitlines()[0])
    finally:
        cudalab.reset()


def _findings(entry: Entry, site: Site, seed: int | None) -> tuple[tuple[str, int], ...]:
    """What the sanitizer says of the first launch in which it finds something."""
    import cudalab

    source = _source(entry, site)
    above = _lines_above(entry, site)
    findings: set[tuple[str, int]] = set()

    def watched(kernel: Any, grid: Any, block: Any, args: Any, launch: Launch) -> None:
        report = cudalab.sanitize(
            kernel,
            grid,
            block,
            args,
            shared=launch.shared,
            cooperative=launch.cooperative,
            seed=seed,
            time_limit=TIME_LIMIT,
        )
        findings.update((finding.rule, max(0, finding.line - above)) for finding in report.findings)
        if findings:
            raise Noticed
        launch_plainly(kernel, grid, block, args, launch)

    for form in entry.forms():
        try:
            run(form, module_of([form], source), launcher=watched, poison=False)
        except Noticed:
            return tuple(sorted(findings))
    return ()


def _wrong(entry: Entry, site: Site) -> str:
    """How the results differ from NumPy's, or nothing."""
    for form in entry.forms():
        try:
            verify(form, run(form, module_of([form], _source(entry, site))))
        except AssertionError as error:
            return str(error).splitlines()[0]
    return ""


def _source(entry: Entry, site: Site) -> str:
    return "".join(f"#include <{header}>\n" for header in entry.headers) + site.mutant


def _lines_above(entry: Entry, site: Site) -> int:
    """Lines of a mutant's source before the body."""
    return len(entry.headers) + (PLAIN.count("\n") if site.kind == "atomic" else 0)


def explained() -> dict[str, str]:
    """Survivors and why they may, by `Deletion.key`."""
    return tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """One line a kind, and one a class of findings."""
    lines = []
    for kind, word in WORDS.items():
        own = [verdict for verdict in verdicts if verdict.deletion.kind == kind]
        noticed = [verdict for verdict in own if verdict.findings]
        lines.append(
            f"{word}: {len(own)} taken out, {len(noticed)} noticed"
            f" ({sum(verdict.shuffled for verdict in noticed)} of them only with threads shuffled),"
            f" {sum(bool(verdict.refused) for verdict in own)} no longer run,"
            f" {sum(verdict.survives for verdict in own)} survive"
        )
        rules = Counter(rule for verdict in noticed for rule in verdict.rules)
        lines += [f"    {rule}: {count}" for rule, count in rules.most_common()]
    return lines


def main() -> int:
    """The command; 1 when a survivor is not explained or an explanation has no survivor."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.deletion", description=__doc__)
    parser.add_argument("--only", default="", help="entries whose name fits this regular expression")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", help="write all verdicts to this JSON file")
    given = parser.parse_args()
    tasks = [deletion for deletion in deletions() if re.search(given.only, deletion.entry)]
    known = explained()
    verdicts = []
    unexplained = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(examine, tasks, chunksize=4):
            deletion = verdict.deletion
            verdicts.append(verdict)
            where = f"{deletion.key} (line {deletion.line}: {deletion.text})"
            if verdict.survives:
                unexplained += deletion.key not in known
                result = f" [the result differs: {verdict.wrong}]" if verdict.wrong else ""
                print(f"{where}: {known.get(deletion.key, 'NOT EXPLAINED')}{result}", flush=True)
            elif verdict.refused:
                print(f"{where} no longer runs: {verdict.refused}", flush=True)
            if not verdict.survives and deletion.key in known:
                unexplained += 1
                print(f"{where} is explained, but does not survive: {', '.join(verdict.rules)}", flush=True)
    print(*summary(verdicts), sep="\n")
    if given.out:
        Path(given.out).write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1), encoding="utf-8")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
