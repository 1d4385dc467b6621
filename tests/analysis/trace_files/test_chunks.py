"""Large files are cut at the ends of lines."""

from __future__ import annotations

import os

from fib_rmsnorm.analysis.trace_files import chunks


def test_a_line_without_an_end_is_not_read_to_the_end_of_its_file(tmp_path, monkeypatch):
    """A file of 2 GB without a newline took 13 s and as much memory to be refused."""
    endless, read, pread = tmp_path / "endless.jsonl", [], os.pread
    endless.touch()
    os.truncate(endless, 2 << 30)

    def count(descriptor: int, length: int, place: int) -> bytes:
        data = pread(descriptor, length, place)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", count)
    with endless.open("rb") as file:
        assert chunks.cut(file.fileno(), 0, 2 << 30) is None
    assert sum(read) <= 64 << 20
