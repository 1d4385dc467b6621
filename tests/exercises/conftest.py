from __future__ import annotations

import pytest

NO_KERNEL = "x = 1\n"


@pytest.fixture
def start(fib, tmp_path, monkeypatch):
    """Set an exercise up in a folder; its kernels are in no language of it, so that nothing is judged."""
    monkeypatch.chdir(tmp_path)

    def run(number: int):
        folder = tmp_path / f"exercise-{number}"
        outcome = fib("exercise", str(number))
        assert outcome.code == 0, outcome.err
        for kernel in (*folder.glob("*.py"), *folder.glob("*.c*")):
            kernel.write_text(NO_KERNEL)
        return folder

    return run
