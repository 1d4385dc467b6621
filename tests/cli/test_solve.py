from __future__ import annotations

import json

from support.registries import RIGHT, WRONG, add_sources


def test_only_the_chosen_solutions_are_packed(fib, registry):
    for name, source in (("right_v1", RIGHT), ("right_v2", RIGHT), ("wrong_v1", WRONG)):
        add_sources(registry, name, {"kernel.py": source})
    outcome = fib("solve", "--root", registry.root, "--solutions", "right_*", "--json")
    assert outcome.code == 0, outcome.err
    assert [each["name"] for each in json.loads(outcome.out)] == ["right_v1", "right_v2"]
    assert set(registry.solutions()) == {"right_v1", "right_v2"}


def test_a_name_without_sources_is_refused(fib, registry):
    add_sources(registry, "right_v1", {"kernel.py": RIGHT})
    outcome = fib("solve", "--root", registry.root, "--solutions", "right_v1,rigth_v2")
    assert outcome.code == 2
    assert outcome.err == "fib-rmsnorm: no Solution with sources matches 'rigth_v2' (available: right_v1)\n"
    assert registry.solutions() == {}
