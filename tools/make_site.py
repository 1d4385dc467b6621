"""Gather the pages of the site in build/docs, from which mkdocs.yml builds it.

They are docs/, README.md as the first page, each file outside docs/ that a page links to, the Python API and the schema
from docstrings, and a page with charts for each file of published Traces.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FROM_DOCSTRINGS = ROOT / "tools" / "site"
GATHERED = ROOT / "build" / "docs"
START = GATHERED / "index.md"
CHARTS = """\
# Charts

Each bench has a page that says who wins, with charts, all results and the sources. Move the pointer over a line of a
chart to read its values; click a name in its legend to hide or show the line.
"""
LINK = re.compile(r"(?<=\]\()[^)\s:#]+")


def copy_pages() -> None:
    """Copy all pages and the files that they link to, with links that fit where the copies lie."""
    files = (path for folder in (DOCS, FROM_DOCSTRINGS) for path in folder.rglob("*") if path.is_file())
    waiting = [ROOT / "README.md", *files]
    for path in waiting:
        copy = find_place(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            linked = copy_page(path, copy)
            waiting += [target for target in linked if target not in waiting]
        else:
            shutil.copyfile(path, copy)


def copy_page(page: Path, copy: Path) -> list[Path]:
    """Copy a page and return the files of the repository to which it links."""
    linked = []

    def move(link: re.Match[str]) -> str:
        target = find_target(page, link[0])
        if target is None:
            return link[0]
        linked.append(target)
        return os.path.relpath(find_place(target), copy.parent)

    hides = "---\nhide: [navigation]\n---\n" if copy == START else ""  # it would list the page alone
    copy.write_text(hides + LINK.sub(move, page.read_text(encoding="utf-8")), encoding="utf-8")
    return list(dict.fromkeys(linked))


def find_target(page: Path, link: str) -> Path | None:
    """Return the file of the repository to which a page links: of a folder, its README.md."""
    target = Path(os.path.normpath(page.parent / link))
    target = target / "README.md" if target.is_dir() else target
    return target if target.is_file() and target.is_relative_to(ROOT) else None


def find_place(path: Path) -> Path:
    """Return where the copy of a file lies; there, docs/, tools/site/ and the root are one folder."""
    if path == ROOT / "README.md":
        return START
    return GATHERED / path.relative_to(next(top for top in (DOCS, FROM_DOCSTRINGS, ROOT) if path.is_relative_to(top)))


def draw_charts(traces: Path) -> str:
    """Write the page of a file of Traces and return a link to it."""
    page = GATHERED / "charts" / f"{traces.stem}.html"
    command = [sys.executable, "-m", "fib_rmsnorm", "report", str(traces), "--output", str(page)]
    subprocess.run(command, check=True, cwd=ROOT)
    return f"- [{traces.stem}](charts/{page.name})"


def main() -> None:
    """Gather all pages anew."""
    shutil.rmtree(GATHERED, ignore_errors=True)
    copy_pages()
    (GATHERED / "charts").mkdir()
    parts = [CHARTS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for title, folder in (("H100", ROOT / "traces" / "published"), ("H200", DOCS / "data")):
            links = pool.map(draw_charts, sorted(folder.rglob("*.jsonl")))
            parts += [f"## On an NVIDIA {title}\n", *links, ""]
    (GATHERED / "charts.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
