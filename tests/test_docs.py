"""The pages: every link between them leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MOST_LINES = {
    "README.md": 150,
    "CHANGELOG.md": 80,
    "docs/architecture.md": 110,
    "docs/cheats.md": 150,
    "docs/definitions_of_your_own.md": 100,
    "docs/kernels.md": 150,
    "docs/measuring.md": 150,
    "docs/tuning.md": 150,
}
"""What is longer belongs in docs/appendix/."""

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    targets = LINK.findall(CODE.sub("", FENCE.sub("", page.read_text())))
    inside = [target for target in targets if not target.startswith("https://")]
    assert [target for target in inside if not leads_somewhere(page, target)] == []


@pytest.mark.parametrize(("page", "most"), MOST_LINES.items())
def test_a_page_says_only_what_a_reader_needs(page, most):
    assert len((ROOT / page).read_text().splitlines()) <= most


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    return path.is_relative_to(ROOT) and path.exists() and (not anchor or anchor in anchors(path))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_an_anchor_is_made_as_github_makes_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# C++ on a CPU\n\n## Triton: what `x` is tied to\n\n```\n# a comment\n```\n")
    assert anchors(page) == {"c-on-a-cpu", "triton-what-x-is-tied-to"}
