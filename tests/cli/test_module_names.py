"""A kernel is named as `FILE::function`, or as `package.module:function`, of the working folder or installed."""

from pathlib import Path

import pytest

from support.paths import write
from support.registries import RIGHT, python_manifest

CHECK = ("--check", "--device", "cpu", "--batch-sizes", "4")
RUNS = "raise SystemExit('ran')\n"
SCALED = "def gamma(weight):\n    return weight\n"
NORMS = f"from mypkg.parts import gamma\n\n{RIGHT.replace('def run(', 'def rms_norm(')}\n\n"
WRONG = RIGHT.replace("def run(", "def doubled(").replace("x.float()", "x.float() * 2 + 1")


@pytest.fixture
def folder(registry):
    """The working folder, with a package in it."""
    files = {"__init__.py": "from .norms import rms_norm\n", "parts/__init__.py": SCALED, "norms.py": NORMS + WRONG}
    for name, text in files.items():
        write(f"mypkg/{name}", text)
    write("mine/kernel.py", RIGHT)
    write("mine/solution.toml", python_manifest("mine"))
    return registry.root


@pytest.mark.parametrize(
    "name", ["mypkg.norms:rms_norm", "mypkg:rms_norm", "mypkg/norms.py::rms_norm", "torch.nn.functional:rms_norm"]
)
def test_a_function_of_a_module_is_judged(fib, folder, name):
    outcome = fib("try", name, *CHECK)
    assert (outcome.code, "PASSED" in outcome.out) == (0, True), outcome.out + outcome.err


def test_functions_of_one_module_are_ranked_and_the_one_that_is_named_fails(fib, folder):
    found = fib("try", "mypkg/norms.py::doubled", "mypkg.norms:rms_norm", *CHECK, "--json").json["kernels"]
    assert {each["kernel"]: each["status"] for each in found} == {
        "norms.py:rms_norm": "PASSED",
        "norms.py:doubled": "INCORRECT_NUMERICAL",
    }


def test_a_module_of_the_package_is_registered_with_what_it_imports(fib, folder):
    named = ("--name", "mine", "--author", "me")
    made = fib("register", "mypkg.norms:rms_norm", *named, "--strided", "--json").json
    assert made["files"] == ["mypkg/norms.py", "mypkg/parts/__init__.py", "solution.toml"]
    assert "strided = true" in Path(made["folder"], "solution.toml").read_text()


def test_what_is_installed_is_registered_as_its_call(fib, folder):
    named = ("--name", "mine", "--author", "me", "--call", "rms_norm(x, (hidden,), weight, eps)")
    import torch

    made = fib("register", Path(torch.__file__).parent / "nn/functional.py", *named, "--json").json
    assert made["files"] == ["functional_call.py", "solution.toml"]
    assert fib("try", made["folder"], *CHECK).code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mypkg.gone:f"], "mypkg.gone:f: no module 'mypkg.gone' in the working folder, and none installed"),
        (["mypkg/gone.py::f"], "mypkg/gone.py"),
        (["mypkg.norms:gone"], "mypkg/norms.py: no function 'gone' (available: rms_norm, doubled)"),
        (["mypkg/norms.py::gone"], "mypkg/norms.py: no function 'gone' (available: rms_norm, doubled)"),
        (["mine/::gone"], "mine: no function 'gone' in kernel.py (available: run)"),
        (["mypkg.norms:rms_norm", "--call", "doubled"], "names what to call: leave out --call 'doubled'"),
    ],
)
@pytest.mark.parametrize("command", ["try", "explain", "compare --measure mypkg.norms:rms_norm"])
def test_a_name_that_is_not_found_is_a_line(fib, folder, command, words, says):
    outcome = fib(*command.split(), *words)
    assert outcome.code == 2 and says in outcome.refusal


def test_a_module_is_found_without_running_its_package(fib, folder):
    Path("mypkg/__init__.py").write_text(RUNS)
    outcome = fib("explain", "mypkg.norms:gone")
    assert (outcome.code, "no function 'gone'" in outcome.refusal) == (2, True)
