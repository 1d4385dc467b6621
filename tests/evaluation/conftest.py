from collections.abc import Iterator

import pytest

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.sandbox.fork_server import ForkServer
from support.lent_fork_server import LentForkServer


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """One for a module's tests that do not stop it."""
    with LentForkServer(ROLES) as started:
        yield started
