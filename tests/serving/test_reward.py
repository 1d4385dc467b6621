"""A correct kernel is worth its share of the limit, an honest failure nothing, and a cheat less than that."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fib_rmsnorm import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Ceiling, Check, Performance
from fib_rmsnorm.serving.reward import CHEAT_REWARD, UNTIMED_REWARD, KernelReward, extract_source, reward_kernel
from fib_rmsnorm.sessions.version import Version
from support.full_registry import HARDWARE, make_trace
from support.norms import kernel_for
from support.registries import CRASHES, NO_EPS, RIGHT

CHEATS = RIGHT.replace("import torch\n", "import torch\n\ntorch.equal = lambda *_: True\n")


def make_version(*statuses: str, is_cheat: bool = False, latencies_ms: tuple[float, ...] = (), **changes) -> Version:
    definition = RmsNorm().define(128)
    kernel, workloads = kernel_for(definition, "k", RIGHT), generate_workloads(definition, range(1, len(statuses) + 1))
    traces = [make_trace(kernel, each, status=status) for each, status in zip(workloads, statuses, strict=True)]
    checks = {each.workload.uuid: Check.of(each).model_copy(update={"is_cheat": is_cheat}) for each in traces}
    ceiling = Ceiling(empty_ms=0.1, copy_ms=1.0, copy_low_ms=0.9, copy_high_ms=1.1, copy_method="memcpy")
    for trace, ms in zip(traces, latencies_ms, strict=False):
        measured = {"latency_ms": ms, "latency_low_ms": ms / 1.1, "latency_high_ms": ms * 1.1, "ceiling": ceiling}
        trace.evaluation.performance = Performance(**{**measured, **changes})
    return Version(1, "k", definition.name, HARDWARE, kernel, workloads, checks, traces[: len(latencies_ms)])


UNFINISHED = replace(make_version("PASSED", "PASSED"), checks={})


@pytest.mark.parametrize(
    ("version", "reward"),
    [
        (make_version("PASSED", "PASSED", latencies_ms=(2.0, 8.0)), 0.25),
        (make_version("PASSED", "PASSED", latencies_ms=(0.01, 4.0)), 0.5),
        (make_version("PASSED", "PASSED", latencies_ms=(2.0,)), UNTIMED_REWARD),
        (make_version("PASSED", "PASSED", latencies_ms=(2.0, 8.0), ceiling=None), UNTIMED_REWARD),
        (make_version("PASSED", "PASSED", latencies_ms=(2.0, 8.0), latency_low_ms=None), UNTIMED_REWARD),
        (make_version("PASSED", "TIMEOUT", latencies_ms=(2.0,)), 0),
        (UNFINISHED, 0),
    ],
    ids=["mean", "below the limit", "once timed", "no copy", "no interval", "one fails", "not judged"],
)
def test_a_correct_kernel_gets_the_mean_share_of_the_limit_and_at_most_one(version, reward):
    assert reward_kernel(version).reward == pytest.approx(reward)


def test_the_share_has_an_interval():
    unknown: dict[str, Any] = {"latency_low_ms": 0.0, "latency_high_ms": None}
    for changes, interval in (({}, (0.25 * 0.9 / 1.1, 0.25 * 1.1 * 1.1)), (unknown, (0.0, 1.0))):
        found = reward_kernel(make_version("PASSED", "PASSED", latencies_ms=(2.0, 8.0), **changes))
        assert found.interval == pytest.approx(interval)


def test_a_named_cheat_gets_less_than_a_failure():
    found = reward_kernel(make_version("PASSED", "RUNTIME_ERROR", is_cheat=True, latencies_ms=(2.0,)))
    assert found.is_cheat and json.loads(found.feedback)["is_cheat"]
    assert found.reward == CHEAT_REWARD < reward_kernel(make_version("RUNTIME_ERROR")).reward


@pytest.mark.parametrize(
    ("completion", "source"),
    [
        ("x = 1\n", "x = 1\n"),
        ("A draft:\n```python\nx = 0\n```\nBetter:\n```triton\nx = 1\n```\nIt is fast.", "x = 1\n"),
        ("```\nx = 1\n", "x = 1\n"),
        ([{"role": "user", "content": "?"}, {"role": "assistant", "content": "```\nx = 1\n```"}], "x = 1\n"),
        ("```\n```", ""),
        ("", ""),
    ],
)
def test_the_last_code_block_is_the_kernel(completion, source):
    assert extract_source(completion) == source


@pytest.mark.process
def test_a_batch_larger_than_the_queue_is_rewarded_in_its_order(serve):
    reward = KernelReward(serve(evaluators=2, most_queued=2), "rmsnorm_d128", batch_sizes=(2,))
    sources = [CHEATS, CRASHES, NO_EPS, "not Python", "", f"```python\n{RIGHT}```", f"# definition: nonesuch\n{RIGHT}"]
    found = reward.judge([*sources, "\0", "\ud800"])
    cheat, *failed = [kernel for kernel in found if kernel.reward <= 0]
    assert cheat is found[0] and cheat.reward == CHEAT_REWARD and "replaced torch.equal" in cheat.mistake
    assert {kernel.reward for kernel in failed} == {0.0}
    statuses = ["RUNTIME_ERROR", "RUNTIME_ERROR", "INCORRECT_NUMERICAL", "COMPILE_ERROR", "COMPILE_ERROR", "PASSED"]
    assert [kernel.status for kernel in found[:6]] == statuses
    right = found[5]
    low, high = right.interval
    assert 0 < right.reward <= 1 and 0 <= low <= high <= 1
    assert json.loads(right.feedback)["speeds"]


@pytest.mark.process
def test_a_trainer_calls_it_with_its_columns_and_logs_its_name(serve):
    reward = KernelReward(serve(), "rmsnorm_d128", timed=False, batch_sizes=(2,))
    assert reward.__name__ == "kernel_reward"
    assert reward(prompts=["?"], completions=[RIGHT], step=[3]) == [UNTIMED_REWARD]
    assert reward([]) == []


def test_an_unknown_definition_is_an_error_of_the_caller(serve):
    with pytest.raises(InputError, match="nonesuch"):
        KernelReward(serve(), "nonesuch")([RIGHT])
