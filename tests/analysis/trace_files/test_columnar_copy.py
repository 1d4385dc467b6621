"""Large files answer as small ones do: whatever happens to the file, to the copy of its columns, or beside it."""

from __future__ import annotations

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fib_rmsnorm.analysis import loading
from fib_rmsnorm.analysis.comparing.comparison import compare
from fib_rmsnorm.analysis.loading import TraceSet, open_traces
from fib_rmsnorm.analysis.sections import split
from fib_rmsnorm.analysis.trace_files import chunk_workers, chunks, columnar_copy
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.cache_contents import COLUMNS
from fib_rmsnorm.errors import InputError
from support.trace_lines import CHOICES, TIMES, WRITTEN, change, changes, line, some_lines, write_otherwise


@pytest.fixture(autouse=True)
def small_chunks(tmp_path, monkeypatch):
    """A cache of its own, chunks of a few lines, and no other processes: they take longer to start than to read."""
    monkeypatch.chdir(tmp_path)  # away from the registry, whose Solutions would be read each time
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(columnar_copy, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(chunk_workers, "_MOST", 1)


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
@settings(
    max_examples=100, derandomize=False, print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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


@pytest.fixture
def large(path) -> Path:
    """A file of several chunks."""
    path.write_bytes(b"".join(line(batch=1 << n % 3, timestamp=TIMES[n % 3]) for n in range(12)))
    assert check(path)["is_large"]
    return path


def copy_of(path: Path) -> Path:
    (folder,) = [each for each in (cache_folder() / COLUMNS).iterdir() if each.is_dir()]
    return folder


def settle(path: Path, monkeypatch) -> None:
    """As if the file had not changed for a while."""
    monkeypatch.setattr(columnar_copy, "_SETTLED_NS", -(1 << 60))


def refuse(*arguments):
    raise AssertionError("the file was read again")


def test_an_unchanged_file_is_not_read_again(large, monkeypatch):
    settle(large, monkeypatch)
    for name in ("read_chunks", "read_extent"):
        monkeypatch.setattr(columnar_copy, name, refuse)
    assert answer(large, large=True)["is_large"]


def test_of_a_file_that_has_grown_only_the_end_is_decoded(large, monkeypatch):
    numbers: list[int] = []
    read_chunk = chunk_workers.read_chunk

    def read(descriptor, number, extent, rows):
        numbers.append(number)
        return read_chunk(descriptor, number, extent, rows)

    monkeypatch.setattr(chunk_workers, "read_chunk", read)
    change(large, "append", line(solution="new_v1"))
    check(large)
    assert numbers == [3]


def test_a_file_of_the_same_size_time_and_inode_is_told_by_its_bytes(large):
    before = large.stat()
    change(large, "alter", 5)
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = large.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    assert any("FAILED" in record for record in check(large)["records"])


def tear(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-200])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage"), [("copy.json", tear), ("rows-*.parquet", flip), ("rows-*.parquet", Path.unlink)]
)
def test_a_damaged_copy_is_made_anew(large, monkeypatch, name, damage):
    settle(large, monkeypatch)
    (file,) = copy_of(large).glob(name)
    damage(file)
    check(large)
    monkeypatch.setattr(columnar_copy, "read_chunks", refuse)
    assert check(large)["is_large"]


def test_a_copy_by_another_version_of_the_decoder_is_made_anew(large, monkeypatch):
    settle(large, monkeypatch)
    monkeypatch.setattr(columnar_copy, "_decoder", lambda: "another")
    monkeypatch.setattr(columnar_copy, "read_chunks", refuse)
    with pytest.raises(AssertionError, match="read again"):
        answer(large, large=True)


def test_columns_that_do_not_fit_the_file_are_refused_and_made_anew(large, monkeypatch):
    """With digests that are right: whoever can write to the cache can write those too."""
    settle(large, monkeypatch)
    manifest = json.loads((copy_of(large) / "copy.json").read_bytes())
    change(large, "alter", 5)
    found = large.stat()
    manifest["identity"] |= {"mtime_ns": found.st_mtime_ns, "ctime_ns": found.st_ctime_ns}
    (copy_of(large) / "copy.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"changed while it was read; run the command again"):
        answer(large, large=True)
    check(large)


def test_without_a_folder_to_keep_it_in_a_copy_serves_once(large, monkeypatch, tmp_path):
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(large))
    assert check(large)["is_large"]
    monkeypatch.setattr(columnar_copy.tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(OSError("no room")))
    assert not check(large)["is_large"]


def test_a_line_too_long_for_a_record_is_told_as_ever(large, monkeypatch):
    monkeypatch.setattr(chunks, "MOST_RECORD", 3000)
    change(large, "append", b"[" * 9000)
    assert not check(large)["is_large"]


def test_several_processes_decode_as_one(large, monkeypatch):
    monkeypatch.setattr(chunk_workers, "_MOST", 2)
    monkeypatch.setattr(chunk_workers.os, "sched_getaffinity", lambda _: {0, 1})
    change(large, "replace", b"{\n" + large.read_bytes())
    assert check(large)["told"]


def test_a_process_that_dies_leaves_it_to_this_one(large, monkeypatch):
    monkeypatch.setattr(chunk_workers, "_MOST", 2)
    monkeypatch.setattr(chunk_workers.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(chunk_workers, "_START", "raise SystemExit(1)")
    change(large, "replace", line(solution="new_v1") + large.read_bytes())
    assert not check(large)["is_large"]


def test_readers_beside_each_other_and_beside_a_writer_see_whole_copies(large):
    with ThreadPoolExecutor(4) as threads:
        for number in range(2):
            change(large, "append", line(solution=f"new{number}_v1"))
            found = list(threads.map(lambda _: answer(large, large=True), range(4)))
            assert all(each == found[0] and each["number"] == 13 + number for each in found)
    (rows,) = copy_of(large).glob("rows-*")
    assert sorted(each.name for each in copy_of(large).iterdir()) == ["copy.json", rows.name]
