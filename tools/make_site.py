"""Write a page of results for each published Definition and each other bench to site/, and an index of them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"
INDEX = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>fib-rmsnorm: results</title>
<h1>Results</h1>
<ul>
{links}
</ul>
</html>
"""


def write_page(traces: Path) -> Path:
    """Write the page of a file of Traces."""
    page = SITE / f"{traces.stem}.html"
    subprocess.run([sys.executable, "-m", "fib_rmsnorm", "report", traces, "--output", page], check=True, cwd=ROOT)
    return page


def main() -> None:
    """Write all pages."""
    SITE.mkdir(exist_ok=True)
    files = (
        *sorted((ROOT / "traces" / "published").rglob("*.jsonl")),
        *sorted((ROOT / "docs" / "data").glob("*.jsonl")),
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pages = list(pool.map(write_page, files))
    links = "\n".join(f'<li><a href="{page.name}">{escape(page.stem)}</a></li>' for page in pages)
    (SITE / "index.html").write_text(INDEX.format(links=links), encoding="utf-8")


if __name__ == "__main__":
    main()
