"""Generate docs/cli.md from `--help`; with --check, say whether it is up to date instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
HEADER = """\
# Command line

Generated from `--help` by `make fix`; do not edit.

Exit codes: 0 all is well, 1 evaluations (or a validation) failed, 2 bad input, 130 interrupted.
"""


def help_text(*command: str) -> str:
    """The help of a command, at a fixed width and without colours."""
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "fib_rmsnorm", *command, "--help"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    return result.stdout.replace("python -m fib_rmsnorm", "fib-rmsnorm").strip()


def make_page() -> str:
    """The whole page."""
    sys.path.insert(0, str(ROOT))
    from fib_rmsnorm.cli.app import app

    parts = [HEADER, f"```\n{help_text()}\n```\n"]
    names = [str(command.name) for command in app.registered_commands]
    parts += [f"## {name}\n\n```\n{help_text(name)}\n```\n" for name in names]
    return "\n".join(parts)


def main() -> int:
    """Write the page, or compare it."""
    page = make_page()
    if "--check" not in sys.argv:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print("docs/cli.md is out of date; run: make fix")
    return 1


if __name__ == "__main__":
    sys.exit(main())
