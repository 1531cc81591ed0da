"""While a trace is open, calls and the lines around them take the host longer, as they do on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cudalab
from cudalab import cudart
from cudalab.sim import device as sim_device
from cudalab.sim.device.current import set_current_device


@pytest.fixture(autouse=True)
def device() -> Iterator[sim_device.Device]:
    before = set_current_device(sim_device.Device())
    cudart.cudaStreamQuery(0)  # the context is there
    yield sim_device.current_device()
    set_current_device(before)


def ask() -> int:
    """ns that a call takes."""
    before = sim_device.current_device().clock_ns
    cudart.cudaStreamQuery(0)
    return sim_device.current_device().clock_ns - before


def test_a_call_in_a_trace_takes_longer_and_the_first_two_more(device: sim_device.Device) -> None:
    host = device.profile.host
    plain = ask()
    assert plain == round(host["stream_query"] + host["bindings_call"])
    with cudalab.trace():
        first, second, third, fourth = ask(), ask(), ask(), ask()
    assert plain + host["trace_call"] + host["trace_line"] < third == fourth < plain + 15_000
    assert second == pytest.approx(third + host["trace_first"], abs=1)
    assert first == pytest.approx(second, abs=10 * host["trace_line"])
    assert ask() == plain


def test_what_a_call_takes_in_a_trace_depends_on_the_lines_before_it(device: sim_device.Device) -> None:
    line = device.profile.host["trace_line"]

    def add(total: int) -> int:
        total += 1
        return total

    with cudalab.trace():
        ask()
        ask()
        short = ask()
        total = 0
        total += 1
        total += 1
        behind_three = ask()
        add(add(total))
        behind_two_functions = ask()
    assert behind_three - short == pytest.approx(3 * line, abs=2)
    assert behind_two_functions - short == pytest.approx((1 + 2 * 4) * line, abs=2), "in, two lines, and back"


def test_traces_within_each_other_cost_as_much_as_one() -> None:
    plain = ask()
    with cudalab.trace():
        first, _ = ask(), ask()
        with cudalab.trace():
            assert plain < ask() < first / 2
        assert plain < ask() < first / 2
    with cudalab.trace():
        assert ask() > first / 2, "each trace has its own first calls"
    assert ask() == plain


def test_the_hosts_row_shows_the_call_itself(device: sim_device.Device) -> None:
    """Without what the binding does in Python, as on a GPU."""
    plain = ask() - round(device.profile.host["bindings_call"])
    with cudalab.trace() as timeline:
        ask()
        ask()
    calls = [span for span in timeline.spans if span.kind == "runtime call"]
    assert [round(1000 * span.microseconds) for span in calls] == [plain, plain]


def test_what_the_host_computes_itself_takes_no_longer(device: sim_device.Device) -> None:
    with cudalab.trace():
        before = device.clock_ns
        cudalab.host_work(50)
        assert device.clock_ns - before == 50_000


def test_a_recording_has_no_traces() -> None:
    """A replay makes the same calls and opens no trace: it must find the same times."""
    device = sim_device.Device(record=True)
    set_current_device(device)
    ask()
    plain = ask()
    with cudalab.trace():
        assert ask() == plain
