"""Large files answer as small ones do, whatever happens to the file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fib_rmsnorm.analysis import loading
from fib_rmsnorm.analysis.comparing.comparison import compare
from fib_rmsnorm.analysis.loading import TraceSet, open_traces
from fib_rmsnorm.analysis.sections import split
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files import regular_files
from support.trace_lines import CHOICES, TIMES, WRITTEN, change, changes, line, some_lines, write_otherwise


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Away from the registry, whose Solutions would be read each time."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "t.jsonl"


def answer(path: Path, *, large: bool, choice=lambda kind: True) -> dict:
    """What is read of a file: all records, those of a report and what it leaves out, and what is told."""
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "LARGE_BYTES", 0 if large else 1 << 40)
        with open_traces([path], warn=told.append) as found:
            kinds = found.kinds()
            found.keep([kind for kind in kinds if choice(kind)])
            number, everything, newest = found.count(), found.read(), found.read_newest()
            contents = found.read_newest_contents().records
            left_out = found.leave_out_outdated(alone=False).outdated
            current = found.read_newest()
            is_large = any(not isinstance(part, list) for part in found.parts)
    sections = split(newest.records, newest.unread)
    return {
        "is_large": is_large,
        "told": told,
        "kinds": kinds,
        "number": number,
        "records": [repr(each.as_row()) for each in everything.records],
        "sections": [
            (each.definition, each.conditions, [repr(record.as_row()) for record in each.records])
            for each in sections.sections
        ],
        "superseded": sections.superseded,
        "compared": compared(contents),
        "left out": left_out,
        "current": [repr(each.as_row()) for each in newest_of(current)],
    }


def newest_of(found: TraceSet) -> list[TraceRecord]:
    return [each for section in split(found.records, found.unread).sections for each in section.records]


def compared(records: list) -> str:
    """What comparing Traces with themselves says: which runs there are of what."""
    for each in records:
        each.offset = None  # the only thing that only large files tell
    try:
        return repr(compare(records, records))
    except InputError as error:
        return str(error)


def check(path: Path, **choice) -> dict:
    """That a file read as a large one answers as it does read whole."""
    large, whole = answer(path, large=True, **choice), answer(path, large=False, **choice)
    is_large = large.pop("is_large")
    assert not whole.pop("is_large") and large == whole
    return {**large, "is_large": is_large}


def follow(path: Path, start: bytes, steps) -> None:
    """Check a file at first, after each change, and for chosen Traces at the end."""
    path.write_bytes(start)
    check(path)
    for how, what in steps:
        change(path, how, what)
        check(path)
    check(path, choice=lambda kind: kind.solution == "fast_v1" and kind.axes == {"batch": 8})


any_file = given(start=some_lines, steps=st.lists(changes, max_size=4))


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@any_file
def test_a_large_file_answers_as_a_small_one_whatever_happens_to_it(path, start, steps):
    follow(path, start, steps)


@pytest.mark.fuzz
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@any_file
def test_many_large_files_answer_as_small_ones(path, start, steps):
    follow(path, start, steps)


@pytest.mark.parametrize("how", WRITTEN)
def test_traces_that_another_program_wrote_are_chosen_alike(path, how):
    """With each among plain ones: what is written otherwise is neither lost nor taken for something else."""
    chance = random.Random(how)
    rows = [line(**{name: chance.choice(CHOICES[name]) for name in CHOICES}) for _ in range(60)]
    path.write_bytes(b"".join(write_otherwise(row, how) if number % 2 else row for number, row in enumerate(rows)))
    found = check(path)
    assert found["is_large"] and not found["told"] and found["number"] == 60


def test_the_newest_of_many_mixed_traces_is_found(path):
    chance = random.Random(1)
    path.write_bytes(b"".join(line(**{name: chance.choice(CHOICES[name]) for name in CHOICES}) for _ in range(1500)))
    found = check(path)
    assert found["is_large"] and len(found["sections"]) > 20 and found["superseded"] > 500
    assert sum(found["left out"].values()) > 400 and found["current"]


def test_the_kinds_and_contents_of_a_file_are_told_in_its_order(path):
    """Also where the newest of two contents that are equally new is the one that comes last."""
    rows = [line(solution="b_v1", sha="bb"), line(solution="a_v1"), line(solution="b_v1", sha="aa")]
    path.write_bytes(b"".join([*rows, rows[0], line(solution="a_v1", sha="cc", timestamp="2025")]))
    assert [kind.solution for kind in check(path)["kinds"]] == ["b_v1", "a_v1"]


def test_a_line_too_long_for_a_record_is_told_as_ever(path, monkeypatch):
    path.write_bytes(line() + b"[" * 9000 + line())
    monkeypatch.setattr(regular_files, "MOST_RECORD", 3000)
    found = check(path)
    assert found["number"] == 1
    assert found["told"] == [f"{path}:2: is larger than 0 MiB, so it is not a record (skipped)"]


def test_what_is_wrong_with_lines_is_told_with_the_place_of_the_first(path):
    """Also of a Trace that a newer one of the same evaluation supersedes, and of a torn last line."""
    path.write_bytes(line() + b"\n" + line(samples="many") + line() + b"{\n" + line()[:-40])
    what = "Expected `int | null`, got `str` - at `$.evaluation.performance.samples`"
    assert check(path)["told"] == [f"{path}:3: {what} (skipped; and 2 more in this file)"]


def test_a_file_that_changes_while_it_is_read_is_refused(path, monkeypatch):
    monkeypatch.setattr(loading, "LARGE_BYTES", 0)
    path.write_bytes(line() * 2)
    for changed in (line(timestamp=TIMES[1]) * 2, b"{"):
        path.write_bytes(line() * 2)
        with open_traces([path], warn=pytest.fail) as found:
            path.write_bytes(changed)
            with pytest.raises(InputError, match=r"changed while it was read; run the command again"):
                found.read()
