"""Files damaged at random: every command that reads ends with a code and a line, never with a traceback."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.full_registry import (
    CUDA,
    CUDA_TRACES,
    DEFINITION,
    DEFINITION_FILE,
    PYTHON,
    PYTHON_FILE,
    PYTHON_FOLDER,
    PYTHON_TRACES,
    WORKLOAD_FILE,
)
from support.mutations import damage
from support.paths import PUBLISHED

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ANALYSES = (
    ("report",),
    ("report", "--format", "markdown"),
    ("report", "--format", "html"),
    ("best",),
    ("analyze",),
    ("compare", CUDA_TRACES, PYTHON_TRACES),
    ("history", "*"),
    ("validate",),
)
OTHER_READERS = (
    ("report", "--summary"),
    ("report", "--against", "*"),
    ("deploy", "traces"),
    ("merge", ".", CUDA_TRACES),
)
CATALOGUES = (
    ("validate",),
    ("list",),
    ("list", "traces", "--each"),
    ("show", DEFINITION),
    ("show", PYTHON),
    ("show", f"{DEFINITION}@batch=1"),
    ("show", f"{PYTHON}@batch=1"),
    ("show", f"{CUDA}@batch=8"),
    ("solve",),
)
# Not shrunk: each example runs commands, and the traceback tells enough.
ENOUGH = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],
}
OFTEN = [pytest.mark.fuzz, pytest.mark.timeout(900)]


def examples_of(number: int) -> settings:
    """The same every time where they are few; of many, other ones each time, as repeating them would find no more."""
    return settings(max_examples=number, derandomize=number < 10, print_blob=True, **ENOUGH)


seeds = st.integers(0, 2**32)


def assert_sound(fib, command) -> None:
    outcome = fib(*command)
    assert outcome.code in (0, 1, 2)
    assert not OBEYED.search(outcome.out + outcome.err)
    assert outcome.code != 2 or outcome.err.startswith("fib-rmsnorm: ")


def read_records(registry) -> dict[str, list[dict]]:
    """The records by their file, and Traces that this tool has really measured."""
    files = (DEFINITION_FILE, PYTHON_FILE, WORKLOAD_FILE, CUDA_TRACES, PYTHON_TRACES)
    texts = {file: (registry.root / file).read_text() for file in files}
    found = {
        file: [json.loads(each) for each in (text.splitlines() if file.endswith("l") else [text])]
        for file, text in texts.items()
    }
    found["published"] = [json.loads(line) for line in PUBLISHED.read_text().splitlines()[::12]]
    return found


def write_damaged(registry, records, chosen) -> None:
    for file in (CUDA_TRACES, PYTHON_TRACES):
        lines = []
        for seed in chosen:
            random = Random(f"{seed}{file}")
            lines.append(damage(random.choice(records[random.choice((file, "published"))]), random))
        (registry.root / file).write_bytes(b"\n".join(lines))


def check_analyses(fib, registry, records, chosen, commands) -> None:
    """Each reader gets all the damaged Traces at once: what it cannot read, it skips."""
    write_damaged(registry, records, chosen)
    for command in commands:
        assert_sound(fib, command)


def check_catalogues(fib, registry, records, seed) -> None:
    """A command that reads a registry ends at its first bad record, so it gets one."""
    random = Random(seed)
    file = random.choice([file for file in records if file != "published"])
    before = (registry.root / file).read_bytes()
    lines = [json.dumps(record).encode() for record in records[file]]
    lines[0] = damage(records[file][0], random)
    (registry.root / file).write_bytes(b"\n".join(lines))
    for command in random.sample(CATALOGUES, 3):
        assert_sound(fib, command)
    (registry.root / file).write_bytes(before)
    fib("solve")


@pytest.mark.parametrize(
    ("examples", "commands"), [(1, ANALYSES), pytest.param(30, ANALYSES + OTHER_READERS, marks=OFTEN)]
)
def test_no_damaged_trace_stops_an_analysis(fib, full_registry, examples, commands):
    records = read_records(full_registry)

    @examples_of(examples)
    @given(st.lists(seeds, min_size=100, max_size=100))
    def check(chosen):
        check_analyses(fib, full_registry, records, chosen, commands)

    check()


@pytest.mark.parametrize("examples", [5, pytest.param(100, marks=OFTEN)])
def test_no_damaged_record_is_a_traceback(fib, full_registry, examples):
    records = read_records(full_registry)

    @examples_of(examples)
    @given(seeds)
    def check(seed):
        check_catalogues(fib, full_registry, records, seed)

    check()


@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=OFTEN)])
def test_no_damaged_manifest_is_a_traceback(fib, full_registry, examples):
    manifest = full_registry.root / PYTHON_FOLDER / "solution.toml"
    before = manifest.read_bytes()

    @examples_of(examples)
    @given(st.binary(max_size=400))
    def check(content):
        cut = len(content) % len(before)
        manifest.write_bytes(before[:cut] + content + before[cut:])
        for command in (("solve",), ("validate",)):
            assert_sound(fib, command)
        manifest.write_bytes(before)

    check()


@pytest.mark.fuzz
def test_no_damaged_trace_stops_a_chart(fib, full_registry):
    records = read_records(full_registry)
    pytest.importorskip("matplotlib")

    @examples_of(2)
    @given(st.lists(seeds, min_size=100, max_size=100))
    def check(chosen):
        write_damaged(full_registry, records, chosen)
        assert_sound(fib, ("report", "--plots", "plots"))

    check()
