"""The examples of the documentation run as they stand."""

from __future__ import annotations

import subprocess
import sys

from support.paths import PUBLISHED, REPOSITORY


def test_best_by_batch_names_a_winner_for_each_batch():
    example = REPOSITORY / "docs" / "examples" / "best_by_batch.py"
    result = subprocess.run(
        [sys.executable, example, PUBLISHED], check=True, capture_output=True, text=True, cwd=REPOSITORY
    )
    lines = [
        line for line in result.stdout.splitlines() if line.startswith("NVIDIA H100 80GB HBM3 (cupti)  rmsnorm_d4096")
    ]
    assert len(lines) == 8 and lines[0].endswith(" us")
