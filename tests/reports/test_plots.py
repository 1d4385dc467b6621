"""Charts as files, of Traces whose names strangers chose."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from support.trace_json import lines, trace

NAMES = ["\x1b[2J\x07\x85", "_hidden", "$\\nosuch$", "a\ufffe<b>", "数", ""]
SHOWN = [r"\u001b[2J\u0007\u0085", "_hidden", "$\\nosuch$", "a\ufffd<b>", "数"]
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.mark.filterwarnings("error::UserWarning")
def test_any_name_is_drawn_as_it_is_and_obeyed_by_nobody(fib, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "traces.jsonl"
    hardware = "\x1b[2J" + 70 * "long_"
    path.write_text(lines(*(trace(name, batch, hardware=hardware) for name in NAMES for batch in (1, 8, 32, 128))))
    outcome = fib("report", path, "--plots", tmp_path / "plots")
    assert outcome.code == 0, outcome.err
    assert not OBEYED.search(outcome.err.replace("\n", "")) and "Glyph" not in outcome.err
    drawn = [each.read_text() for each in sorted((tmp_path / "plots").glob("*latency.svg"))]
    assert drawn
    texts = [element.text.strip() for svg in drawn for element in ElementTree.fromstring(svg).iter() if element.text]
    assert [name for name in SHOWN if name not in texts] == []
