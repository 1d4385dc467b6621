"""Threads parse at once, each by another way: CPython before 3.11.8 raises SystemError where nothing orders them."""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.registry.sources.python_module import read_module
from fib_rmsnorm.schema import Definition
from fib_rmsnorm.syntax_trees import parse_file
from support.paths import REPOSITORY

KERNEL = REPOSITORY / "fib_rmsnorm" / "sandbox" / "process.py"
DEFINITION = REPOSITORY / "definitions" / "norm" / "layernorm_backward_d4096.json"


@pytest.fixture
def switches_between_threads():
    """Objects are collected while a tree is built, and a callback in Python lets another thread run."""
    usual = gc.get_threshold()
    gc.set_threshold(20)
    gc.callbacks.append(lambda phase, info: sum(range(50)))
    yield
    gc.callbacks.pop()
    gc.set_threshold(*usual)


@pytest.mark.usefixtures("switches_between_threads")
def test_threads_may_parse_at_once():
    kernel, definition = KERNEL.read_text(), DEFINITION.read_text()

    def parse(_: int) -> None:
        read_module(parse_file(KERNEL, kernel))
        recognise_source(Definition.model_validate_json(definition))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(parse, range(96))) == [None] * 96
