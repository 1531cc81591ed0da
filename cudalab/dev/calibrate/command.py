"""``python -m cudalab calibrate``: measure this machine's GPU, fit the time model's constants, write a profile.

The profile extends the simulated H200's: the constants that have microbenchmarks get new values, each with its unit,
where it comes from, and the date; the device's properties are those that the driver names. What has no microbenchmark
stays as it is. ``CUDALAB_DEVICE=sim:./FILE.json`` runs on it, and ``sim:FILE`` where it lies in the folder of one's own
profiles, which ``python -m cudalab doctor`` names.
"""

from __future__ import annotations

import datetime
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cudalab import backend
from cudalab.backend import DeviceChoiceError

DIGITS = 4


def calibrate(
    out: Path | None, *, name: str = "measured", measured: Path | None = None, keep: Path | None = None
) -> int:
    """Run the command; returns the exit code.

    ``out`` is the profile to write, ``measured`` a file of figures to fit instead of measuring, ``keep`` where to store
    the figures that were measured.
    """
    if measured is None and (why := _no_gpu()):
        print(f"calibrate: {why}", file=sys.stderr)
        return 1
    figures: dict[str, Any] = json.loads(measured.read_text(encoding="utf-8")) if measured else measure()
    if keep is not None:
        keep.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    profile, table = fitted_profile(figures, name)
    print(table)
    if out is not None:
        out.write_text(json.dumps(profile, indent=1) + "\n", encoding="utf-8")
        print(f"written: {out}")
    return 0


def _no_gpu() -> str:
    try:
        if backend.choice().kind == "gpu":
            return ""
    except DeviceChoiceError as error:
        return str(error)
    return (
        f"there is no GPU to measure. {backend.choice().reason} Run it on a machine with a GPU, or fit stored figures "
        "with --measured FILE"
    )


def measure() -> dict[str, Any]:
    """Figures of the device of this process: ``kernels`` and ``calls`` in microseconds, and what it is."""
    from cudalab import cudart
    from cudalab.dev.calibrate.calls import Calls
    from cudalab.dev.calibrate.measurement import Measurement
    from cudalab.dev.calibrate.suite import microbenchmarks
    from cudalab.device import device

    banner = device()
    sms = int(banner.properties["multiProcessorCount"])
    benchmarks = microbenchmarks(sms)
    with tqdm(total=len(benchmarks), desc="kernels", unit="", disable=None) as progress:
        kernels = Measurement().kernels(benchmarks, lambda line: progress.update() and None)
    calls = Calls(backend.choice().kind == "gpu").run()
    return {
        "device": banner.name,
        "driver": int(cudart.cudaDriverGetVersion()[1]),
        "date": datetime.date.today().isoformat(),
        "sms": sms,
        "properties": {key: banner.properties[key] for key in _PROPERTIES},
        "kernels": kernels,
        "calls": calls,
    }


_ATTRIBUTES = {
    "multiProcessorCount": "MultiProcessorCount",
    "l2CacheSize": "L2CacheSize",
    "persistingL2CacheMaxSize": "MaxPersistingL2CacheSize",
    "memoryBusWidth": "GlobalMemoryBusWidth",
}
"""Properties that are device attributes, too."""
_PROPERTIES = ("name", "totalGlobalMem", *_ATTRIBUTES)


def fitted_profile(figures: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """The profile as data, and a table of its constants with what is left of each measurement."""
    from cudalab.dev.calibrate import direct
    from cudalab.dev.calibrate.fit import fit
    from cudalab.dev.calibrate.model import Model
    from cudalab.dev.calibrate.suite import microbenchmarks
    from cudalab.sim.device.profile import load

    base = load()
    found = fit(Model(base, microbenchmarks(int(figures["sms"]))), figures["kernels"])
    host = {key: constant(figures["calls"]) for key, constant in direct.HOST.items()}
    device = {key: constant(figures["calls"]) for key, constant in direct.DEVICE.items()} | found.constants
    when = f"{figures['device']}, driver {figures['driver']}, {figures['date']}"
    properties: dict[str, Any] = figures.get("properties", {})
    lines = [f"{'constant':<24}{'value':>12}  {'was':>10}  {'unit':<34}left of its microbenchmarks"]
    data: dict[str, Any] = {
        "name": name,
        "extends": base.name,
        "title": f"{figures['device']} (simulated)",
        "description": f"Calibrated on {when}.",
        "properties": properties,
        "attributes": {_ATTRIBUTES[key]: value for key, value in properties.items() if key in _ATTRIBUTES},
    }
    for part, values, old in (("host", host, base.host_constants), ("device", device, base.device_constants)):
        entries = data.setdefault(part, {})
        for key, value in sorted(values.items()):
            used = found.used.get(key, ()) if part == "device" else ()
            what = f"microbenchmarks: {_shortened(used)}" if used else "calls and copies"
            entries[key] = {"value": _rounded(value), "unit": old[key].unit, "source": f"{when}: {what}"}
            left = " ".join(f"{error:+.1%}" for error in found.errors_of(key)[:6]) if used else ""
            lines.append(f"{key:<24}{value:>12.4g}  {old[key].value:>10.4g}  {old[key].unit:<34}{left}")
    errors = [abs(found.error(each)) for each in found.modelled]
    lines.append(
        f"{len(errors)} microbenchmarks: median error {statistics.median(errors):.1%}, "
        f"{sum(error <= 0.25 for error in errors) / len(errors):.0%} within 25 %"
    )
    return data, "\n".join(lines)


def _shortened(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
