"""Run random programs with CuPy, on whatever device ``cudalab.cp`` is, and keep digests of the results.

``data/h200.json`` holds what an H200 gave: for each seed a digest of the program's text, so that a changed generator is
noticed, and one of the arrays after the launch. The command that renews it, on a machine with a GPU::

    python -m tests.fuzz --record 0:1000 --jobs 16 --to tests/fuzz/data/h200.json
"""

from __future__ import annotations

import datetime
import hashlib
import json
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import program as p
from tests.fuzz.comparison import OPTIONS, compare, reference, struct_value
from tests.fuzz.data import initial
from tests.fuzz.emit import Emitter, dynamic_bytes, module, ordered_parameters
from tests.fuzz.generator import BATCH, generate
from tests.fuzz.scalar import Array, canonical

DATA = Path(__file__).parent / "data" / "h200.json"


def text_digest(program: p.Program) -> str:
    """Of the program and its inputs."""
    arrays = [initial(program, array).tobytes() for array in program.arrays if array.space == "global"]
    return _digest([Emitter(program).text().encode(), repr((program.grid, program.block)).encode(), *arrays])[:8]


def result_digest(results: dict[str, Array]) -> str:
    """Of arrays in global memory, whatever the bits of NaNs."""
    return _digest([canonical(results[name]).tobytes() for name in sorted(results)])[:16]


def _digest(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def run_batch(programs: Sequence[p.Program]) -> dict[int, dict[str, Array]]:
    """The arrays after each program's launch, by seed."""
    from cudalab import cp

    loaded = cp.RawModule(code=module(programs), options=OPTIONS)
    return {program.seed: _run(cp, loaded.get_function(program.name), program) for program in programs}


def _run(cp: Any, kernel: Any, program: p.Program) -> dict[str, Array]:
    arguments: list[Any] = []
    arrays: dict[str, Any] = {}
    for given in ordered_parameters(program):
        if isinstance(given, p.Array):
            arrays[given.name] = cp.asarray(initial(program, given))
            arguments.append(arrays[given.name])
        else:
            value = struct_value(program, given)
            arguments.append(value.reshape(1) if given.struct else value[()])
    kernel(program.grid, program.block, tuple(arguments), shared_mem=dynamic_bytes(program))
    return {name: array.get() for name, array in arrays.items()}


def _batch(seeds: list[int]) -> tuple[dict[int, tuple[str, str]], list[str]]:
    programs = [generate(seed) for seed in seeds]
    expected = {program.seed: reference(program) for program in programs}
    programs = [program for program in programs if expected[program.seed] is not None]
    digests: dict[int, tuple[str, str]] = {}
    failures: list[str] = []
    try:
        outcomes = run_batch(programs)
    except Exception as error:  # the next batches may still run
        return {}, [f"seeds {seeds[0]} to {seeds[-1]}: {type(error).__name__}: {error}"[:1000]]
    for seed, results in outcomes.items():
        program = next(each for each in programs if each.seed == seed)
        wanted = expected[seed]
        assert wanted is not None
        digests[seed] = (text_digest(program), result_digest(results))
        text = compare(program, wanted, results)
        if text:
            failures.append(f"seed {seed}: {text}")
    return digests, failures


def record(seeds: range, jobs: int, to: str | None) -> int:
    """Run programs, compare with the interpreter, and write the digests; 1 where something differs."""
    began = time.monotonic()
    batches = [list(range(first, min(seeds.stop, first + BATCH))) for first in range(seeds.start, seeds.stop, BATCH)]
    digests: dict[int, tuple[str, str]] = {}
    failures: list[str] = []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for found, differ in pool.imap_unordered(_batch, batches):
            digests.update(found)
            failures += differ
            for failure in differ:
                print(failure, flush=True)
    print(f"{len(digests)} programs in {time.monotonic() - began:.0f} s, {len(failures)} differ from the interpreter")
    if to:
        Path(to).write_text(_document(digests), encoding="utf-8")
    return 1 if failures else 0


def _document(digests: dict[int, tuple[str, str]]) -> str:
    from cudalab import cp

    properties = cp.cuda.runtime.getDeviceProperties(0)
    name = properties["name"]
    head = {
        "device": name.decode() if isinstance(name, bytes) else name,
        "date": datetime.date.today().isoformat(),
        "driver": cp.cuda.runtime.driverGetVersion(),
        "cupy": cp.__version__,
        "numpy": np.__version__,
    }
    lines = [f'"{seed}": "{text} {result}"' for seed, (text, result) in sorted(digests.items())]
    rows = ",\n".join(", ".join(lines[at : at + 3]) for at in range(0, len(lines), 3))
    return f'{{"recorded": {json.dumps(head)},\n"digests": {{\n{rows}\n}}}}\n'


def recorded() -> dict[int, tuple[str, str]]:
    """What the H200 gave: seed → digests of the program and of its results."""
    document = json.loads(DATA.read_text(encoding="utf-8"))
    return {int(seed): tuple(text.split()) for seed, text in document["digests"].items()}
