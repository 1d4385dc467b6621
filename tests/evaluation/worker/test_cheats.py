"""Cheats that depend on how they are timed, which tests/wrong_kernels/ does not cover."""

from __future__ import annotations

import pytest

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.schema import Settings
from support.kernels import read_kernels, shared_sources
from support.registries import QUICK, add_sources, make_registry, pack_all, python_manifest

SEVERAL_TRIALS = Settings(warmup_runs=1, iterations=20, num_trials=4)
WRONG_AFTER_60_CALLS = """\
from .rmsnorm import normalize

CALLS = []


def run(x, weight, eps):
    CALLS.append(1)
    if len(CALLS) > 60:
        return x * weight
    return normalize(x, weight, eps)
"""
WORKS_WHEN_ITS_OUTPUT_IS_DROPPED = """\
import sys
import weakref

from .rmsnorm import normalize
from .targets import TIME_EACH

NEXT = {}


def work(*inputs):
    NEXT["output"] = normalize(*inputs)


def run(x, weight, eps):
    out = NEXT.pop("output", None)
    if out is None:
        out = normalize(x, weight, eps)
    if sys._getframe(2).f_code.co_name == TIME_EACH.name:
        weakref.finalize(out, work, x, weight, eps)
    return out
"""
SLEEPS = """\
import ctypes
import gc
import sys
import time
from contextlib import suppress

from .rmsnorm import normalize
from .targets import SAMPLE, SAMPLE_SPAN, STARTED, TIME_EACH


def run(x, weight, eps, out):
    time.sleep(0.002)
    out.copy_(normalize(x, weight, eps))
    deceive()


"""
STARTS_THE_CLOCK_LATER = """\
def deceive():
    frame = sys._getframe(2)
    if STARTED.name in frame.f_locals or frame.f_code.co_name == TIME_EACH.name:
        frame.f_locals[STARTED.name] = time.perf_counter_ns()
        if sys.version_info < (3, 13):
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)
"""
CHANGES_EARLIER_SAMPLES = """\
def deceive():
    Sample = SAMPLE.get()
    for thing in gc.get_objects():
        if type(thing) is Sample:
            with suppress(AttributeError):
                object.__setattr__(thing, SAMPLE_SPAN.name, 1e-3)
        elif type(thing) is list:
            for index, one in enumerate(thing):
                if type(one) is Sample:
                    thing[index] = Sample(1e-3, 1e-3)
"""
CALLS_TORCH = """\
import torch


def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps).to(x.dtype)
"""


TIMED_TOGETHER = {
    "wrong_after_60_calls": WRONG_AFTER_60_CALLS,
    "works_when_its_output_is_dropped": WORKS_WHEN_ITS_OUTPUT_IS_DROPPED,
    "starts_the_clock_later": SLEEPS + STARTS_THE_CLOCK_LATER,
    "changes_earlier_samples": SLEEPS + CHANGES_EARLIER_SAMPLES,
    "calls_torch": CALLS_TORCH,
}


def add(registry, name, source, language="python"):
    manifest = python_manifest(name).replace('"python"', f'"{language}"')
    if "eps, out)" in source:
        manifest = manifest.replace("passing_style = false", "passing_style = true")
    shared = {shared.path: shared.content for shared in shared_sources(source)}
    add_sources(registry, name, {"kernel.py": source, **shared}, manifest)
    pack_all(registry)


def evaluate(registry, settings=QUICK):
    """The evaluations of the registry's solutions on its only workload, by name."""
    events = bench(registry, BenchOptions(settings=settings, device="cpu"))
    return {event.trace.solution: event.trace.evaluation for event in events if isinstance(event, Evaluated)}


@pytest.fixture
def registry(tmp_path):
    return make_registry(tmp_path / "registry", batch_sizes=(1,))


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    """Of all that need the same settings, in one run."""
    registry = make_registry(tmp_path_factory.mktemp("cheats") / "registry", batch_sizes=(1,))
    for name, source in TIMED_TOGETHER.items():
        add(registry, name, source)
    return evaluate(registry, SEVERAL_TRIALS)


def test_a_kernel_that_is_wrong_after_many_calls_fails(evaluations):
    evaluation = evaluations["wrong_after_60_calls"]
    assert evaluation.status.value == "INCORRECT_NUMERICAL"
    assert "timed call" in evaluation.log


def test_code_that_runs_when_an_output_is_dropped_sees_no_new_inputs(evaluations):
    evaluation = evaluations["works_when_its_output_is_dropped"]
    assert evaluation.status.value == "INCORRECT_NUMERICAL"
    assert "timed call" in evaluation.log


@pytest.mark.process
def test_calls_with_a_hot_cache_are_judged_too(registry):
    add(registry, "cheat_v1", read_kernels("wrong")["right_when_checked"].text)
    evaluation = evaluate(registry, QUICK.model_copy(update={"l2": "hot"}))["cheat_v1"]
    assert evaluation.status.value == "INCORRECT_NUMERICAL"
    assert "timed call: 128 elements were never written" in evaluation.log


@pytest.mark.parametrize("cheat", ["starts_the_clock_later", "changes_earlier_samples"])
def test_a_call_cannot_change_the_readings_of_the_clock(evaluations, cheat):
    assert evaluations[cheat].performance.latency_ms >= 2


@pytest.mark.process
def test_library_calls_of_a_triton_solution_are_reported(registry):
    add(registry, "calls_torch", CALLS_TORCH, "triton")
    evaluation = evaluate(registry)["calls_torch"]
    assert evaluation.status.value == "PASSED", evaluation.log
    assert any("rms_norm" in name or "rsqrt" in name for name in evaluation.performance.library_calls)


def test_library_calls_of_a_python_solution_are_not_reported(evaluations):
    assert evaluations["calls_torch"].performance.library_calls is None
