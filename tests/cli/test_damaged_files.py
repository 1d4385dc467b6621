"""Files damaged at random: every command that reads ends with a code and a line, never with a traceback."""

from __future__ import annotations

import json
import re
from random import Random, SystemRandom

import pytest

from support.full_registry import (
    ANALYSES,
    CATALOGUES,
    CUDA_TRACES,
    DEFINITION_FILE,
    PYTHON_FILE,
    PYTHON_FOLDER,
    PYTHON_TRACES,
    WORKLOAD_FILE,
)
from support.mutations import damage, damage_bytes
from support.paths import PUBLISHED

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
DOCUMENTS = (("report", "--output", "report.md"), ("report", "--output", "report.html"), ("validate",))
OTHER_READERS = (
    ("report", "--summary"),
    ("report", "--against", "*"),
    ("deploy", "traces"),
    ("merge", ".", CUDA_TRACES),
)
OFTEN = [pytest.mark.fuzz, pytest.mark.timeout(900)]


def list_seeds(number: int) -> list[int]:
    """The same every time where they are few; of many, other ones each time, as repeating them would find no more."""
    return [*range(number)] if number < 10 else [SystemRandom().randrange(2**32) for _ in range(number)]


def assert_sound(fib, command, seed) -> None:
    outcome = fib(*command)
    assert outcome.code in (0, 1, 2), seed
    assert not OBEYED.search(outcome.out + outcome.err), seed
    assert outcome.code != 2 or outcome.err.startswith("fib-rmsnorm: "), seed


@pytest.fixture
def records(full_registry) -> dict[str, list[dict]]:
    """The records by their file, and Traces that this tool has really measured."""
    files = (DEFINITION_FILE, PYTHON_FILE, WORKLOAD_FILE, CUDA_TRACES, PYTHON_TRACES)
    texts = {file: (full_registry.root / file).read_text() for file in files}
    found = {
        file: [json.loads(each) for each in (text.splitlines() if file.endswith("l") else [text])]
        for file, text in texts.items()
    }
    found["published"] = [json.loads(line) for line in PUBLISHED.read_text().splitlines()[::12]]
    return found


@pytest.mark.parametrize(
    ("examples", "commands"),
    [
        (1, ANALYSES + DOCUMENTS),
        pytest.param(30, ANALYSES + DOCUMENTS + OTHER_READERS, marks=OFTEN),
    ],
)
def test_no_damaged_trace_stops_an_analysis(fib, full_registry, records, examples, commands):
    """Each reader gets many damaged Traces at once: what it cannot read, it skips."""
    for seed in list_seeds(examples):
        random = Random(seed)
        for file in (CUDA_TRACES, PYTHON_TRACES):
            damaged = (damage(random.choice(records[random.choice((file, "published"))]), random) for _ in range(100))
            (full_registry.root / file).write_bytes(b"\n".join(damaged))
        for command in commands:
            assert_sound(fib, command, seed)


@pytest.mark.parametrize("examples", [5, pytest.param(100, marks=OFTEN)])
def test_no_damaged_record_is_a_traceback(fib, full_registry, records, examples):
    """A command that reads a registry ends at its first bad record, so it gets one."""
    for seed in list_seeds(examples):
        random = Random(seed)
        name = random.choice([name for name in records if name != "published"])
        file = full_registry.root / name
        before = file.read_bytes()
        lines = [json.dumps(record).encode() for record in records[name]]
        lines[0] = damage(records[name][0], random)
        file.write_bytes(b"\n".join(lines))
        for command in random.sample((*CATALOGUES, ("solve",)), 3):
            assert_sound(fib, command, seed)
        file.write_bytes(before)
        fib("solve")


@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=OFTEN)])
def test_no_damaged_manifest_is_a_traceback(fib, full_registry, examples):
    manifest = full_registry.root / PYTHON_FOLDER / "solution.toml"
    before = manifest.read_bytes()
    for seed in list_seeds(examples):
        manifest.write_bytes(damage_bytes(before, Random(seed)))
        for command in (("solve",), ("validate",)):
            assert_sound(fib, command, seed)
