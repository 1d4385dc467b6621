"""`fib-rmsnorm define` as its user meets it."""

from __future__ import annotations

from fib_rmsnorm.registry import generate_workloads
from support.full_registry import DEFINITION, PYTHON_FOLDER


def following(outcome) -> str:
    assert outcome.code == 0 and outcome.lines[-2] == "Next:"
    return outcome.lines[-1].strip()


def test_what_follows_is_what_the_definition_lacks(fib, full_registry):
    assert following(fib("define", "--hidden", "128")) == f"fib-rmsnorm bench --definitions {DEFINITION}"
    arguments = ("define", "layernorm_bias", "--hidden", "128")
    workloads = following(fib(*arguments))
    assert workloads == "fib-rmsnorm workload --definition layernorm_bias_d128"
    definition = full_registry.definition("layernorm_bias_d128")
    full_registry.write_workloads(definition, generate_workloads(definition, [8]))
    assert following(fib(*arguments)) == "fib-rmsnorm new triton kernel.py --definition layernorm_bias_d128"


def test_an_edited_definition_is_replaced_only_on_request(fib, full_registry):
    arguments = ("define", "layernorm", "--hidden", "128")
    assert "Wrote definitions/norm/layernorm_d128.json" in fib(*arguments).lines
    path = full_registry.root / "definitions/norm/layernorm_d128.json"
    written = path.read_text()
    before = path.stat()
    assert "Unchanged: definitions/norm/layernorm_d128.json" in fib(*arguments).lines
    assert path.stat().st_mtime_ns == before.st_mtime_ns and path.stat().st_ino == before.st_ino
    definition = full_registry.definition("layernorm_d128")
    edited = definition.model_copy(update={"description": "mine", "reference": f"{definition.reference}# mine\n"})
    full_registry.write_definition(edited)
    refused = fib(*arguments)
    said = f"{path} differs in reference, description; to lose what it has there, add: --replace"
    assert (refused.code, refused.out, refused.err) == (2, "", f"fib-rmsnorm: {said}\n")
    assert full_registry.definition("layernorm_d128") == edited
    assert fib(*arguments, "--replace").code == 0 and path.read_text() == written


def test_sources_that_serve_the_definition_can_be_benched(fib, full_registry):
    manifest = full_registry.root / PYTHON_FOLDER / "solution.toml"
    manifest.write_text(manifest.read_text().replace("[spec]", 'definitions = ["rmsnorm_d*"]\n\n[spec]'))
    assert fib("define", "--hidden", "256").code == 0
    assert fib("workload", "--definition", "rmsnorm_d256", "--batch-sizes", "1").code == 0
    assert following(fib("define", "--hidden", "256")) == "fib-rmsnorm bench --definitions rmsnorm_d256"


def test_the_main_definition_is_the_one_that_was_defined_last(fib, full_registry):
    fib("define", "--hidden", "256")
    assert full_registry.main_definition == "rmsnorm_d256"
    assert "Unchanged:" in fib("define", "--hidden", "128").out
    assert full_registry.main_definition == DEFINITION
    assert fib("define", "rmsnorm", "--hidden", "0").code == 2
    assert full_registry.main_definition == DEFINITION


def test_what_follows_names_the_registry_that_was_named(fib, registry):
    outcome = fib("define", "layernorm", "--hidden", "128", "--root", registry.root)
    assert following(outcome).endswith(f" --root {registry.root}")
