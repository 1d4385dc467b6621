"""A name means one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import fib_rmsnorm

PACKAGE = Path(fib_rmsnorm.__file__).parent
RENDERINGS = ("cli", "reports")
"""Here a file may be named as what it runs or shows: cli/bench.py runs evaluation/bench.py."""


def test_no_two_public_classes_share_a_name():
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_two_files_share_a_name_unless_one_renders_the_other():
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        if not path.stem.startswith("__"):
            places[path.stem, room if room in RENDERINGS else "the rest"].append(str(path.relative_to(PACKAGE)))
    assert {name: found for (name, _), found in places.items() if len(found) > 1} == {}
