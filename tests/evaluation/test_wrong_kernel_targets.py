"""The names that wrong kernels attack exist: an attack on a missing name would fail for the wrong reason."""

from __future__ import annotations

import ast

import pytest

from support.paths import REPOSITORY
from support.wrong_kernels import KERNELS, load_targets

TARGETS = load_targets()
NAMED = {name: value for name, value in vars(TARGETS).items() if name.isupper()}


def of_kind(kind):
    return [value for value in NAMED.values() if isinstance(value, kind)]


def read_module(module):
    """Its syntax: modules that need CUPTI cannot be imported everywhere."""
    return ast.parse((REPOSITORY / TARGETS.PACKAGE / f"{module.replace('.', '/')}.py").read_text())


def definition_of(module, path):
    """The module, class or function at a path."""
    found = read_module(module)
    for name in filter(None, path.split(".")):
        (found,) = [node for node in found.body if getattr(node, "name", None) == name]
    return found


def names_in(owner):
    """Names that a module or a class has, or that the methods of a class give to its objects."""
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from (name.id for name in ast.walk(node) if isinstance(name, ast.Name))
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


@pytest.mark.parametrize("target", of_kind(TARGETS.Target), ids=str)
def test_a_target_exists(target):
    assert target.name in names_in(definition_of(target.module, target.path.rpartition(".")[0]))


@pytest.mark.parametrize("local", of_kind(TARGETS.Local), ids=str)
def test_a_local_variable_exists(local):
    function = definition_of(local.function.module, local.function.path)
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    assert local.name in names | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}


@pytest.mark.parametrize("text", of_kind(TARGETS.Text), ids=str)
def test_a_text_exists(text):
    assert text.text in [node.value for node in ast.walk(read_module(text.module)) if isinstance(node, ast.Constant)]


@pytest.mark.parametrize("timer", [TARGETS.CPU_CLOCK, TARGETS.CUDA_EVENTS, TARGETS.CUPTI], ids=str)
def test_every_timer_measures(timer):
    assert TARGETS.MEASURE.name in names_in(definition_of(timer.module, timer.path))


def test_no_kernel_names_the_package_by_itself():
    texts = {name: kernel.text + str(kernel.expected) for name, kernel in KERNELS.items()}
    assert [name for name, text in texts.items() if TARGETS.PACKAGE in text] == []
