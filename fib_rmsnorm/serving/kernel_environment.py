"""An environment of OpenEnv: an episode is several attempts at one kernel. Many episodes share a Service."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import field_validator

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import KERNEL_LANGUAGES
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.serving.reward import KernelReward, RewardedKernel
from fib_rmsnorm.sessions.service import Service


class KernelAction(Action):
    """A kernel: its source, or a text in Markdown whose last code block is the source."""

    source: str
    language: str

    @field_validator("language")
    @classmethod
    def _refuse_unknown(cls, language: str) -> str:
        if language not in KERNEL_LANGUAGES:
            raise ValueError(f"choose from {', '.join(KERNEL_LANGUAGES)}")
        return language


@dataclass(frozen=True)
class Attempt(RewardedKernel):
    """An earlier kernel of the episode, and its verdict."""

    source: str
    language: str


class KernelObservation(Observation):
    """The Definition that a kernel must compute, its device, and the results of the attempts so far."""

    definition: str
    reference: str
    """The Python source of the Definition's reference."""
    hardware: str
    history: list[Attempt]
    feedback: str
    """The verdict on the last attempt, in JSON; empty before the first one."""


class KernelEnvironment(Environment[KernelAction, KernelObservation, State]):
    """Rewards each attempt at a kernel as KernelReward does.

    environments = lambda: KernelEnvironment(service, registry, "rmsnorm_d4096")
    app = create_app(environments, KernelAction, KernelObservation, max_concurrent_envs=8)
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        service: Service,
        registry: Registry,
        definition: str,
        *,
        attempts: int = 4,
        timed: bool = True,
        batch_sizes: Sequence[int] = (),
    ) -> None:
        """Raises InputError for an unknown Definition."""
        super().__init__()
        self._definition = registry.definition(definition)
        self._rewarding = KernelReward(service, definition, timed=timed, batch_sizes=batch_sizes)
        self._attempts = attempts
        self._state = State()
        self._history: list[Attempt] = []

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> KernelObservation:
        """Begin an episode. Nothing in it is random."""
        self._state = State(episode_id=episode_id or uuid.uuid4().hex)
        self._history = []
        return self._observe(reward=None)

    def step(self, action: KernelAction, timeout_s: float | None = None, **_: Any) -> KernelObservation:
        """Judge and time an attempt. The service's own time limit holds.

        Raises InputError if the episode is over.
        """
        if len(self._history) >= self._attempts:
            raise InputError(f"all {self._attempts} attempts of this episode are made: call reset")
        (found,) = replace(self._rewarding, language=action.language).judge([action.source])
        self._history.append(Attempt(**vars(found), source=action.source, language=action.language))
        self._state.step_count += 1
        return self._observe(reward=found.reward)

    @property
    def state(self) -> State:
        """The episode's id, and the number of attempts."""
        return self._state

    def _observe(self, reward: float | None) -> KernelObservation:
        return KernelObservation(
            done=len(self._history) >= self._attempts,
            reward=reward,
            definition=self._definition.name,
            reference=self._definition.reference,
            hardware=self._rewarding.service.devices[0].hardware,
            history=list(self._history),
            feedback=self._history[-1].feedback if self._history else "",
        )
