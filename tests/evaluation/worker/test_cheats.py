"""Cheats that depend on how they are timed, which tests/wrong_kernels/ does not cover."""

import pytest

from fib_rmsnorm.schema import Settings
from support.kernels import shared_sources
from support.registries import add_sources, bench_all, make_registry, pack_all, python_manifest

SEVERAL_TRIALS = Settings(warmup_runs=1, iterations=20, num_trials=4)
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

CHEATS = {
    "works_when_its_output_is_dropped": WORKS_WHEN_ITS_OUTPUT_IS_DROPPED,
    "starts_the_clock_later": SLEEPS + STARTS_THE_CLOCK_LATER,
    "changes_earlier_samples": SLEEPS + CHANGES_EARLIER_SAMPLES,
}


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    """Of all cheats by their names, in one run on one Workload."""
    registry = make_registry(tmp_path_factory.mktemp("cheats") / "registry", batch_sizes=(1,))
    for name, source in CHEATS.items():
        manifest = python_manifest(name)
        if "eps, out)" in source:
            manifest = manifest.replace("passing_style = false", "passing_style = true")
        shared = {shared.path: shared.content for shared in shared_sources(source)}
        add_sources(registry, name, {"kernel.py": source, **shared}, manifest)
    pack_all(registry)
    return {trace.solution: trace.evaluation for trace in bench_all(registry, settings=SEVERAL_TRIALS)}


def test_code_that_runs_when_an_output_is_dropped_sees_no_new_inputs(evaluations):
    evaluation = evaluations["works_when_its_output_is_dropped"]
    assert evaluation.status.value == "INCORRECT_NUMERICAL"
    assert "timed call" in evaluation.log


@pytest.mark.parametrize("cheat", ["starts_the_clock_later", "changes_earlier_samples"])
def test_a_call_cannot_change_the_readings_of_the_clock(evaluations, cheat):
    assert evaluations[cheat].performance.latency_ms >= 2
