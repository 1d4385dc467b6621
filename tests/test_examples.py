"""The examples of the documentation run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_best_by_batch_names_a_winner_for_each_batch():
    example = ROOT / "docs" / "examples" / "best_by_batch.py"
    result = subprocess.run(
        [sys.executable, example, ROOT / "traces"], check=True, capture_output=True, text=True, cwd=ROOT
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("NVIDIA H200 (cupti)  rmsnorm_d4096")]
    assert len(lines) == 8 and lines[0].endswith(" us")
