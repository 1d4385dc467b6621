"""A name means one thing in the whole package."""

import ast
from collections import defaultdict
from pathlib import Path

import fib_rmsnorm

PACKAGE = Path(fib_rmsnorm.__file__).parent
RENDERINGS = ("cli", "reports")
"""Here a file may be named as what it runs or shows: cli/bench.py runs evaluation/bench.py."""


def test_no_two_public_classes_share_a_name_nor_two_files_unless_one_renders_the_other():
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places["class", node.name].append(f"{name}:{node.lineno}")
        if not path.stem.startswith("__"):
            places[name.parts[0] if name.parts[0] in RENDERINGS else "the rest", path.stem].append(str(name))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
