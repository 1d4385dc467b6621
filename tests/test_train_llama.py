"""The tool that trains a small Llama with torch's norms and with ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.paths import REPOSITORY

pytestmark = pytest.mark.process  # a process that imports torch, and trains

TOOL = [sys.executable, str(REPOSITORY / "experiments" / "train_llama.py")]


def test_a_llama_learns_the_same_with_our_norms(tmp_path):
    output = tmp_path / "llama.json"
    options = ["--sizes", "small", "--dtypes", "float32", "--modes", "eager", "--steps", "30", "--tokens", "4"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [*TOOL, *options, "--output", str(output)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(output.read_text())["runs"]
    assert run["norms"] == 5
    assert run["losses"]["ours"][-1] < run["losses"]["ours"][0] - 0.5
    differences = run["largest_loss_difference"]
    assert differences["ours"] < 1e-4 < differences["other batches"]
    assert run["step_peak_bytes"]["torch"] > 0
    assert run["same_tokens"] == 1
    assert "| 2 x 128, 0.468 M | float32, eager |" in done.stdout
