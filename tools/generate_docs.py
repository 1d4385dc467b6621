"""Generate docs/cli.md from `--help`, and the tables of the README and of docs/cheats.md from what they are about;
with --check, compare instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kernel_tables

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
README = ROOT / "README.md"
TABLE_BEGINS, TABLE_ENDS = "<!-- table: H200 -->", "<!-- end -->"
TABLE_HARDWARE = "NVIDIA H200"
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


def make_readme() -> str:
    """The README with the table between its markers made anew from the committed traces."""
    sys.path.insert(0, str(ROOT))
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.reports.markdown import results_markdown

    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(TABLE_BEGINS)
    _, _, after = rest.partition(TABLE_ENDS)
    table = results_markdown(Registry(ROOT).traces(), TABLE_HARDWARE)
    return f"{before}{TABLE_BEGINS}\n{table}\n{TABLE_ENDS}{after}"


def main() -> int:
    """Write the pages, or compare them."""
    stale = []
    pages = ((PAGE, make_page()), (README, make_readme()), (kernel_tables.PAGE, kernel_tables.make_page()))
    for page, text in pages:
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(str(page.relative_to(ROOT)))
    if stale:
        print(f"{', '.join(stale)}: out of date; run: make fix")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
