"""A GPU's next draft gets the worker that waits for it, with a folder of its own."""

import pytest

from fib_rmsnorm.building.cache import content_key
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.device_runner import DeviceRunner
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry.sources.draft import AUTHOR
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import EvaluationStatus
from support.registries import NO_EPS, QUICK, RIGHT, add_kernel, make_registry

pytestmark = pytest.mark.gpu


@pytest.fixture
def runner(tmp_path):
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    with ForkServer(ROLES) as forks:
        found = DeviceRunner(forks, choose_devices("auto")[0], RunConfig(QUICK, 60, drafts=drafts))
        yield found
        found.workers.close()


def make_draft(registry, source):
    return add_kernel(registry, "draft", source).model_copy(update={"author": AUTHOR})


@pytest.mark.parametrize(("source", "status"), [(RIGHT, "PASSED"), (NO_EPS, "INCORRECT_NUMERICAL")])
def test_the_next_draft_gets_it_and_the_one_after_that_a_new_one(runner, tmp_path, source, status):
    registry = make_registry(tmp_path / "registry")
    (definition,) = registry.definitions().values()
    workload, draft = registry.workloads(definition.name)[0], make_draft(registry, source)
    runner.start_spare(definition, workload, "triton")
    runner.start_spare(definition, workload, "triton")  # one is enough
    check, _ = runner.check(definition, workload, draft)
    assert check.status is EvaluationStatus(status), check.log
    (folder,) = runner.workers.keep_folders([draft])
    assert folder.name != content_key(draft)
    after = draft.model_copy(update={"name": "after"})
    assert runner.check(definition, workload, after)[0].status is check.status
    assert {each.name for each in runner.workers.keep_folders([draft, after])} == {folder.name, content_key(after)}


def test_a_draft_of_another_definition_gets_a_new_one(runner, tmp_path):
    first, second = (make_registry(tmp_path / str(hidden), hidden=hidden) for hidden in (128, 256))
    (meant,), (other,) = (registry.definitions().values() for registry in (first, second))
    runner.start_spare(meant, first.workloads(meant.name)[0], "python")
    draft = make_draft(second, RIGHT)
    check, _ = runner.check(other, second.workloads(other.name)[0], draft)
    assert check.status is EvaluationStatus.PASSED, check.log
    assert {each.name for each in runner.workers.keep_folders([draft])} == {content_key(draft)}
