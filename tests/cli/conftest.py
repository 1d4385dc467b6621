from __future__ import annotations

import pytest

from support.trace_json import lines


@pytest.fixture
def file(tmp_path):
    """Write Traces to a file and return its path."""

    def run(name: str, *traces):
        path = tmp_path / name
        path.write_text(lines(*traces))
        return path

    return run
