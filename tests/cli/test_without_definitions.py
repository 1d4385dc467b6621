"""Commands without --definitions are about the main Definition, and say so."""

import json

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.schema import digest
from support.command_line import QUICK_OPTIONS
from support.full_registry import DEFINITION, PYTHON, PYTHON_FOLDER, make_trace
from support.paths import write
from support.record_faults import edit_text
from support.registries import add_definition

OTHER = "rmsnorm_d256"
OF_OTHER = f"{PYTHON}_d256"
TOLD = "Definition {}, the registry's main one; for all Definitions: --definitions '*'\n"


@pytest.fixture(autouse=True)
def both(fib, full_registry):
    """A Definition beside the main one, which the same sources serve, and on which they were measured."""
    edit_text(f"{PYTHON_FOLDER}/solution.toml", "[spec]", 'definitions = ["rmsnorm_d*"]\n\n[spec]')
    definition = RmsNorm().define(256)
    workloads = add_definition(full_registry, definition, (1,))
    assert fib("define", "--hidden", "128").code == 0
    assert fib("solve", "--definitions", "*").code == 0
    trace = make_trace(full_registry.packed_solutions()[OF_OTHER], workloads[0])
    trace.evaluation.definition_sha256 = digest(definition)
    full_registry.append_trace(trace, "baseline", "norm")
    next(full_registry.layout.solutions.rglob(f"{OF_OTHER}.json")).unlink()  # only the sources tell of it
    return full_registry


def of(command: str, outcome) -> set[str]:
    """The Definitions in the output of a command."""
    return {each["definition"] for each in (outcome.json["results"] if command == "report" else outcome.json)}


@pytest.mark.parametrize("command", ["solve", "report", "best", "analyze"])
def test_a_command_is_about_it_unless_others_or_solutions_are_named(fib, command):
    alone = fib(command, "--json")
    assert (of(command, alone), alone.err) == ({DEFINITION}, TOLD.format(DEFINITION))
    everything = fib(command, "--definitions", "*", "--json")
    assert (of(command, everything), everything.err) == ({DEFINITION, OTHER}, "")
    named = fib(command, "--solutions", OF_OTHER, "--json")
    assert (of(command, named), named.err) == ({OTHER}, "")
    assert command != "report" or named.json["results"][0]["language"] == "python"
    assert fib("define", "--hidden", "256").code == 0
    assert of(command, fib(command, "--json")) == {OTHER}


@pytest.mark.parametrize("command", ["report", "best", "analyze"])
def test_traces_that_are_named_are_all_shown(fib, command):
    outcome = fib(command, "traces", "--json")
    assert (of(command, outcome), outcome.err) == ({DEFINITION, OTHER}, "")


@pytest.mark.parametrize("command", ["report", "best", "analyze"])
def test_where_only_others_have_traces_it_says_which_and_how_to_ask(fib, both, command):
    for path in both.layout.traces.rglob(f"{DEFINITION}.jsonl"):
        path.unlink()
    outcome = fib(command)
    said = f"fib-rmsnorm: no Definition with Traces matches '{DEFINITION}' (available: {OTHER})\n"
    assert (outcome.code, outcome.out, outcome.err) == (2, "", TOLD.format(DEFINITION) + said)


def test_a_bench_is_about_it(fib):
    options = (*QUICK_OPTIONS, "--languages", "python", "--batch-sizes", "1", "--json")
    outcome = fib("bench", *options)
    assert {json.loads(line)["definition"] for line in outcome.lines} == {DEFINITION}
    assert outcome.err.startswith(TOLD.format(DEFINITION))
    outcome = fib("bench", *options, "--solutions", OF_OTHER)
    assert {json.loads(line)["definition"] for line in outcome.lines} == {OTHER}


def test_workloads_are_made_for_it(fib):
    outcome = fib("workload", "--batch-sizes", "3")
    assert outcome.lines[0] == f"Workloads of {DEFINITION}:"
    assert outcome.err == f"Definition {DEFINITION}, the registry's main one; for another: --definition NAME\n"
    assert fib("workload", "--batch-sizes", "3", "--definition", OTHER).err == ""


def test_where_there_is_none_the_commands_are_about_all(fib, both):
    both.layout.registry_file.unlink()
    outcome = fib("report", "--json")
    assert (of("report", outcome), outcome.err) == ({DEFINITION, OTHER}, "")
    said = f"{both.root} has no main Definition; name one (available: {DEFINITION}, {OTHER})"
    assert fib("workload").refusal == said


@pytest.mark.parametrize("command", ["solve", "workload", "bench", "report", "best", "analyze"])
def test_a_faulty_file_is_one_line(fib, both, command):
    both.layout.registry_file.write_text('main_definition = "rmsnorm_d512"\n')
    what = f"main_definition: no Definition 'rmsnorm_d512' (available: {DEFINITION}, {OTHER})"
    assert fib(command).refusal == f"{both.layout.registry_file}: {what}"


def test_faulty_sources_of_another_operator_stop_no_solve(fib, both):
    write("solutions/ann/norm/layernorm_d128/other_v1/solution.toml", "[[[")
    assert fib("solve").code == 0
    outcome = fib("solve", "--definitions", "*")
    assert outcome.code == 1 and outcome.err.startswith("Failed other_v1: ")
    write(f"{PYTHON_FOLDER}/solution.toml", "[[[")
    outcome = fib("solve")
    assert outcome.code == 1 and outcome.err.splitlines()[1].startswith(f"Failed {PYTHON}: ")
