"""Who measured: what this machine did not record is not its own, and what was changed since is told."""

import json
import re

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.seals import Sealer, TraceOrigin, find_false_date, key_file
from fib_rmsnorm.registry.store import read_jsonl
from fib_rmsnorm.schema import Trace
from support.full_registry import CUDA_TRACES, PYTHON_TRACES
from support.paths import REPOSITORY

SEALER = Sealer(b"k" * 32)
TRACES = read_jsonl(REPOSITORY / "traces/published/norm/rmsnorm_d4096.jsonl", Trace)[::20]


def places_in(node: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all numbers and texts."""
    if isinstance(node, dict):
        return [place for key, value in node.items() for place in places_in(value, (*path, key))]
    if isinstance(node, list):
        return [place for key, value in enumerate(node) for place in places_in(value, (*path, key))]
    return [] if node is None or isinstance(node, bool) else [path]


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.solution)
def test_a_sealed_trace_is_its_own_after_reading_and_writing(trace):
    sealed = SEALER.seal(trace)
    written = sealed.model_dump_json()
    again = Trace.model_validate_json(json.dumps(json.loads(written), indent=1))
    assert again == sealed
    assert SEALER.find_origin(again) is TraceOrigin.OWN
    assert Sealer(b"o" * 32).find_origin(again) is TraceOrigin.ELSEWHERE
    assert Sealer(None).find_origin(again) is TraceOrigin.ELSEWHERE
    unsealed = trace.model_copy(update={"evaluation": trace.evaluation.model_copy(update={"seal": None})})
    assert SEALER.find_origin(unsealed) is TraceOrigin.UNSEALED


def test_any_other_number_or_text_breaks_the_seal():
    text = SEALER.seal(TRACES[0]).model_dump_json()
    broken = 0
    for *path, last in places_in(json.loads(text)):
        node = record = json.loads(text)
        for key in path:
            node = node[key]
        node[last] = node[last] * 2 + 1 if isinstance(node[last], int | float) else node[last] + "é"
        try:
            altered = Trace.model_validate(record)
        except ValueError:
            continue  # no Trace any more
        expected = TraceOrigin.ELSEWHERE if last == "key" else TraceOrigin.ALTERED
        assert SEALER.find_origin(altered) is expected, (*path, last)
        broken += 1
    assert broken > 50


def test_a_forged_trace_is_reported_and_not_the_best(fib, full_registry):
    sealer = Sealer.of_this_machine(create=True)  # as if this user's bench had recorded them
    for path in (full_registry.root / PYTHON_TRACES, full_registry.root / CUDA_TRACES):
        path.write_text("".join(f"{sealer.seal(trace).model_dump_json()}\n" for trace in read_jsonl(path, Trace)))
    assert fib("validate").code == 0
    before = fib("best", "--json").json
    path = full_registry.root / PYTHON_TRACES
    forged = json.loads(path.read_text().splitlines()[0])
    forged["evaluation"]["performance"]["latency_ms"] /= 2
    with path.open("a") as file:
        file.write(json.dumps(forged) + "\n")
    found = fib("best", "--json")
    assert found.json == before
    assert re.search(r":3: a Trace changed since it was recorded \(left out\)", found.err)
    checked = fib("validate")
    assert checked.code == 1
    assert "changed since it was recorded" in checked.out + checked.err
    path.write_text(json.dumps(forged))
    (full_registry.root / CUDA_TRACES).unlink()
    assert fib("best").err.endswith(
        "fib-rmsnorm: no Trace is left; measure again: fib-rmsnorm bench --definitions rmsnorm_d128\n"
    )


@pytest.mark.parametrize(
    "timestamp", ["9999-99-99T00:00:00+00:00", "20260101T000000+00:00", "2026-W01-1", "tomorrow", "2999-01-01"]
)
@pytest.mark.parametrize("is_sound", [True, False], ids=["sound", "not by the schema"])
def test_a_trace_whose_date_lies_after_all_others_is_not_believed(fib, full_registry, timestamp, is_sound):
    """Timestamps are compared as texts, so each of these would stay the newest."""
    before = fib("best", "--json").json
    path = full_registry.root / PYTHON_TRACES
    trace = json.loads(path.read_text().splitlines()[0])
    trace["evaluation"]["performance"]["latency_ms"] /= 2
    trace["evaluation"]["timestamp"] = timestamp
    if not is_sound:
        trace["workload"]["inputs"] = {"x": {"type": "nothing"}}  # which analyses do not read
    with path.open("a") as file:
        file.write(json.dumps(trace) + "\n")
    found = fib("best", "--json")
    assert found.json == before
    assert re.search(r":3: a Trace (without a date that can be read|dated in the future) \(left out\)", found.err)
    assert fib("validate").code == 1


@pytest.mark.parametrize(
    "time", ["", "T03:04:05", " 03:04:05.123456", "T03:04:05Z", "T03:04:05.123456789Z", "T23:59-11:00"]
)
def test_dates_of_other_tools_are_read(time):
    assert find_false_date(f"2026-01-02{time}") is None


def test_a_damaged_key_is_one_line(fib, full_registry, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key_file().parent.mkdir()
    key_file().write_bytes(b"short")
    found = fib("best")
    assert found.code == 2
    assert (
        found.err
        == f"fib-rmsnorm: {key_file()} is damaged: it should have 32 bytes; remove it, and a new one is made\n"
    )


@pytest.mark.parametrize(
    ("folder", "why"), [("/proc/none", "No such file or directory"), (__file__, "Not a directory")]
)
def test_a_home_in_which_no_key_can_be_made_is_reported_with_the_remedy(monkeypatch, folder, why):
    monkeypatch.setenv("XDG_STATE_HOME", folder)
    with pytest.raises(InputError, match=rf"seal\.key: {why}; name a folder .* in \$XDG_STATE_HOME$"):
        Sealer.of_this_machine(create=True)
    assert Sealer.of_this_machine().find_origin(TRACES[0]) is TraceOrigin.ELSEWHERE


def test_a_key_is_made_once_and_nobody_else_reads_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = Sealer.of_this_machine(create=True).seal(TRACES[0])
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert Sealer.of_this_machine(create=True).seal(TRACES[0]) == first
    assert [path.name for path in key_file().parent.iterdir()] == [key_file().name]
