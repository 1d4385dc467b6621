"""An episode of OpenEnv: the observations, the rewards and the end. `make nightly` installs what it needs."""

import json
from functools import partial

import pytest

pytest.importorskip("openenv")

from openenv.core.env_server import create_app
from pydantic import ValidationError

from fib_rmsnorm import InputError
from fib_rmsnorm.serving.kernel_environment import KernelAction, KernelEnvironment, KernelObservation
from fib_rmsnorm.serving.reward import UNTIMED_REWARD
from support.registries import NO_EPS, RIGHT


@pytest.fixture
def make_environment(serve, rival_registry):
    made = partial(KernelEnvironment, serve(), rival_registry, "rmsnorm_d128")
    return partial(made, attempts=2, timed=False, batch_sizes=(2,))


def attempt(source: str) -> KernelAction:
    return KernelAction(source=source, language="python")


@pytest.mark.process
def test_an_episode_shows_each_verdict_and_ends_after_its_attempts(make_environment):
    environment = make_environment()
    begun = environment.reset(episode_id="one")
    assert (begun.done, begun.reward, begun.history, begun.feedback) == (False, None, [], "")
    assert begun.definition == "rmsnorm_d128" and "def run(" in begun.reference and begun.hardware
    wrong = environment.step(attempt(NO_EPS))
    assert (wrong.done, wrong.reward) == (False, 0.0)
    assert "without eps" in json.loads(wrong.feedback)["mistake"]
    right = environment.step(attempt(RIGHT))
    assert (right.done, right.reward) == (True, UNTIMED_REWARD)
    assert [each.status for each in right.history] == ["INCORRECT_NUMERICAL", "PASSED"]
    assert (environment.state.episode_id, environment.state.step_count) == ("one", 2)
    with pytest.raises(InputError, match="call reset"):
        environment.step(attempt(RIGHT))
    assert environment.reset().history == []


@pytest.mark.process
def test_openenvs_server_serves_it(make_environment):
    from fastapi.testclient import TestClient

    app = create_app(make_environment, KernelAction, KernelObservation, max_concurrent_envs=2)
    with TestClient(app) as client, client.websocket_connect("/ws") as socket:
        socket.send_json({"type": "reset", "data": {}})
        assert socket.receive_json()["data"]["observation"]["definition"] == "rmsnorm_d128"
        socket.send_json({"type": "step", "data": {"source": RIGHT, "language": "python"}})
        answer = socket.receive_json()["data"]
        assert answer["reward"] == UNTIMED_REWARD and not answer["done"]
        assert answer["observation"]["history"][0]["status"] == "PASSED"


def test_an_unknown_language_or_definition_is_refused(serve, rival_registry):
    with pytest.raises(ValidationError, match="choose from python"):
        KernelAction(source="", language="fortran")
    with pytest.raises(InputError, match="nonesuch"):
        KernelEnvironment(serve(), rival_registry, "nonesuch")
