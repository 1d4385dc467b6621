"""Rewards for a model that learns to write kernels, as trainers such as TRL's ask for them."""

import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from fib_rmsnorm.analysis.difference import Estimate, recorded
from fib_rmsnorm.analysis.feedback import make_feedback
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, text_as_file
from fib_rmsnorm.schema import Performance
from fib_rmsnorm.sessions.job import Job, QueueFullError
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.version import Version

CHEAT_REWARD = -1.0
"""The reward of a kernel that the judge names a cheat. An honest failure gets 0."""
UNTIMED_REWARD = 0.01
"""The reward of a correct kernel whose share of the limit is unknown: it was interpreted, or no copy was measured.

It is small, so that nobody gains by a kernel that cannot be timed."""
_BLOCK = re.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)

Completion = str | Sequence[Mapping[str, str]]
"""The text of a model, or the messages of a conversation, of which the last one counts."""


@dataclass(frozen=True)
class RewardedKernel:
    """The verdict on a kernel and the reward for it."""

    reward: float
    """CHEAT_REWARD for a cheat and 0 for another failure; otherwise the share of the limit, from 0 to 1, or
    UNTIMED_REWARD."""
    interval: tuple[float, float] | None
    """The 95% interval of the share of the limit; None if nothing was timed."""
    status: str
    """As in the Feedback."""
    mistake: str | None
    is_cheat: bool
    feedback: str
    """The Feedback as JSON, for the model's next attempt."""


@dataclass
class KernelReward:
    """A reward function: it judges and times a batch of kernels side by side.

    with Service(Registry.find()) as service:
        trainer = GRPOTrainer(..., reward_funcs=KernelReward(service, "rmsnorm_d4096", language="triton"))
    """

    service: Service
    definition: str
    _: KW_ONLY
    language: str = "python"
    timed: bool = True
    """If not, kernels are only judged: each correct one gets UNTIMED_REWARD."""
    batch_sizes: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.__name__ = "kernel_reward"  # by which trainers log it

    def __call__(self, completions: Sequence[Completion], **_: object) -> list[float]:
        """The rewards of a batch. Trainers also pass the prompts and the columns of their dataset."""
        return [kernel.reward for kernel in self.judge(completions)]

    def judge(self, completions: Sequence[Completion]) -> list[RewardedKernel]:
        """The verdicts and rewards of a batch.

        Raises FibRmsnormError if there is no verdict and the kernel is not to blame: no reward is better than a wrong
        one.
        """
        client = uuid.uuid4().hex
        jobs: list[Job] = []
        try:
            for completion in completions:
                jobs.append(self._submit(client, extract_source(completion), jobs))
            return [reward_kernel(job.wait()) for job in jobs]
        finally:
            self.service.leave(client)

    def _submit(self, client: str, source: str, jobs: Sequence[Job]) -> Job:
        """Put a kernel into the queue, when there is room for it beside the `jobs` of the same batch."""
        with text_as_file(source, self.language, KernelFile(Path(), self.definition)) as asked:
            while True:
                try:
                    return self.service.submit(client, asked, timed=self.timed, batch_sizes=self.batch_sizes)
                except QueueFullError:  # noqa: PERF203 - and once more when there is room
                    for job in [each for each in jobs if not each.finished.is_set()][:1]:
                        job.finished.wait()


def extract_source(completion: Completion) -> str:
    """The kernel in a completion: its last code block in Markdown, or the whole text if there is none."""
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return next(reversed(_BLOCK.findall(text)), text)


def reward_kernel(version: Version) -> RewardedKernel:
    """The reward for a kernel that was judged."""
    feedback = make_feedback(version)
    reward, interval = 0.0, None
    if version.is_cheat:
        reward = CHEAT_REWARD
    elif version.passed:
        shares = [_find_share(trace.performance) for trace in version.timings if trace.performance]
        known = [share for share in shares if share is not None]
        reward = UNTIMED_REWARD
        if len(known) == len(version.workloads):
            reward = _mean([share.value for share in known])
            interval = _mean([share.low for share in known]), _mean([share.high for share in known])
    return RewardedKernel(reward, interval, version.status, feedback.mistake, version.is_cheat, feedback.to_json())


def _find_share(performance: Performance) -> Estimate | None:
    """The share of the limit that a kernel reaches: the time of a copy of the same bytes over its time, at most 1.

    None without a copy or a time.
    """
    ceiling = performance.ceiling
    latency = recorded(performance.latency_ms, performance.latency_low_ms, performance.latency_high_ms)
    if ceiling is None or latency is None:
        return None
    high = ceiling.copy_high_ms / latency.low if latency.low else math.inf
    shares = ceiling.copy_ms / latency.value, ceiling.copy_low_ms / latency.high, high
    return Estimate(*(min(1.0, share) for share in shares))


def _mean(shares: Sequence[float]) -> float:
    """The geometric mean."""
    return math.prod(shares) ** (1 / len(shares))
