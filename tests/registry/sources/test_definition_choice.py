"""The Definition of a kernel whose user names none, as `register`, `try`, `new` and `explain` choose it."""

from __future__ import annotations

import pytest

from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import Definition

THREE = "def run(x, weight, eps):\n    return x\n"
FOUR = "def run(x, weight, bias, eps):\n    return x\n"
ADDS = "def run(x, residual, weight, eps, out, new_residual):\n    pass\n"


@pytest.fixture
def registry(registry) -> Registry:
    """With rmsnorm_d128, and the default one among others."""
    for name in ("rmsnorm_d4096", "rmsnorm_bias_d4096", "layernorm_d4096", "layernorm_bias_d4096"):
        registry.write_definition(define_by_name(name))
    registry.write_definition(define_by_name("fused_add_rmsnorm_d4096"))
    return registry


@pytest.fixture
def register(fib, registry, tmp_path):
    """Register a file; return where it was filed, or what was said."""

    def run(file: str, source: str, name: str) -> str:
        (tmp_path / file).write_text(source)
        outcome = fib("register", tmp_path / file, "--name", name, "--author", "ann", "--root", registry.root)
        if outcome.code:
            assert outcome.err.count("\n") == 1
            return outcome.err.rstrip().removeprefix(f"fib-rmsnorm: {tmp_path / file}: ")
        return registry.packed_solutions()[name].definition

    return run


def test_parameters_that_fit_one_definition_choose_it(register):
    assert register("kernel.py", ADDS, "mine_v1") == "fused_add_rmsnorm_d4096"


def test_of_several_the_names_choose(register):
    assert register("kernel.py", THREE, "layernorm_python_mine_v1") == "layernorm_d4096"
    assert register("layernorm.py", THREE, "mine_v1") == "layernorm_d4096"
    assert register("kernel.py", FOUR, "rmsnorm_bias_python_mine_v1") == "rmsnorm_bias_d4096"
    assert register("layernorm.py", THREE, "rmsnorm_python_mine_v1") == "rmsnorm_d4096"  # not rmsnorm_d128


def test_of_several_the_parameters_names_choose(fib, register, registry, tmp_path):
    renamed = define_by_name("rmsnorm_d4096").model_dump(mode="json") | {"name": "renamed_d4096"}
    renamed["inputs"] = dict(zip(("x", "gamma", "eps"), renamed["inputs"].values(), strict=True))
    renamed["reference"] = renamed["reference"].replace("weight", "gamma")
    registry.write_definition(Definition.model_validate(renamed))
    exported = "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, norm);\n"
    views = ", ".join(f"tvm::ffi::TensorView {name}" for name in ("x", "gamma"))
    assert register("kernel.py", THREE.replace("weight", "gamma"), "mine_v1") == "renamed_d4096"
    assert register("kernel.py", THREE.replace("weight, eps", "gamma, eps, out"), "into_v1") == "renamed_d4096"
    native = f"void norm({views}, double eps, tvm::ffi::TensorView out) {{}}\n{exported}"
    assert register("kernel.cpp", native, "native_v1") == "renamed_d4096"
    (tmp_path / "tried.py").write_text(THREE.replace("weight", "gamma").replace("return x", "return 1 / 0"))
    tried = fib("try", tmp_path / "tried.py", "--check", "--root", registry.root)
    assert "renamed_d4096 on" in tried.out + tried.err
    assert "fit several" in register("kernel.py", THREE.replace("weight", "other"), "other_v1")


def test_nothing_is_filed_by_a_guess(register):
    what = "its parameters fit several Definitions; choose with --definition"
    assert register("kernel.py", THREE, "mine_v1") == f"{what} layernorm_d4096 or rmsnorm_d128 or rmsnorm_d4096"
    assert register("kernel.py", FOUR, "mine_v1") == f"{what} layernorm_bias_d4096 or rmsnorm_bias_d4096"


def test_what_fits_none_is_told_of_the_default_one(register):
    assert register("kernel.py", "def run(x): pass\n", "mine_v1").startswith("run takes 1 parameters (x); ")


def test_what_is_tried_asks_only_where_the_default_one_does_not_fit(fib, registry, tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text(FOUR)
    tried = fib("try", kernel, "--root", registry.root)
    assert tried.code == 2 and "choose with --definition layernorm_bias_d4096 or rmsnorm_bias_d4096" in tried.err


def test_a_new_kernel_is_of_the_operator_that_its_file_is_named_for(fib, registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, definition in (
        ("layernorm.py", "layernorm_d4096"),
        ("my-layernorm_bias.py", "layernorm_bias_d4096"),
        ("kernel.py", "rmsnorm_d4096"),
        ("rmsnorm.py", "rmsnorm_d4096"),
    ):
        made = fib("new", "python", file, "--root", registry.root)
        assert made.code == 0 and made.lines[0].endswith(f" for {definition}")
