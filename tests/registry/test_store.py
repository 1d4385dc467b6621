import json
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.store import append_lines, read_jsonl, write_atomic
from support.paths import write


class Record(BaseModel):
    n: int
    text: str = ""


records = st.lists(st.builds(Record, n=st.integers(), text=st.text(max_size=20)), min_size=1, max_size=5)


@given(records, st.data())
@settings(deadline=None)
def test_a_torn_last_line_costs_no_whole_record(written, data):
    """Cut a file anywhere, as a killed writer or a full disk does: what was whole is read, and stays."""
    content = "".join(f"{record.model_dump_json()}\n" for record in written).encode()
    cut = data.draw(st.integers(0, len(content)))
    kept = content[:cut]
    whole = kept.count(b"\n")
    if cut < len(content) and content[cut : cut + 1] == b"\n":
        whole += 1  # only its newline is missing
    with TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.write_bytes(kept)
        assert read_jsonl(path, Record) == written[:whole]
        added = Record(n=1, text="añadido")
        append_lines(path, [added.model_dump_json()])
        assert read_jsonl(path, Record) == [*written[:whole], added]
        assert path.read_bytes().endswith(b"\n")
        assert all(json.loads(line) for line in path.read_bytes().splitlines())


@pytest.mark.parametrize(
    ("content", "said"), [('{"n":1}\n{"n":\n{"n":3}\n', ""), ('{"n":1}\n{"m":2}', "n: ")], ids=["torn", "wrong kind"]
)
def test_a_fault_other_than_a_torn_last_line_is_named(tmp_path, content, said):
    path = write(tmp_path / "records.jsonl", content)
    with pytest.raises(InputError, match=rf"records\.jsonl:2: {said}"):
        read_jsonl(path, Record)


def test_what_a_killed_writer_left_is_gone_after_the_next(tmp_path):
    (tmp_path / "file.json").write_text("old")
    (tmp_path / ".file.json.new").write_text("half of what is lon")
    write_atomic(tmp_path / "file.json", "new", tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file.json": "new"}


def test_write_atomic_makes_files_as_readable_as_any_other(tmp_path):
    (tmp_path / "other").touch()
    write_atomic(tmp_path / "file.json", "text")
    assert stat.S_IMODE((tmp_path / "file.json").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)
