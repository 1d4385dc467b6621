"""Kernels as their authors write them: the call is found, and what is said of each stands in its first line.

A file says the exit code of `try` and a text that it prints; or `paste` and a line that `try` prints, with which the
kernel passes. Each is written after a pattern of public projects, which its name says.
"""

import re
import shlex
from pathlib import Path

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_calls
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, choose_definition
from fib_rmsnorm.schema import DType
from support.paths import REPOSITORY
from support.registries import make_empty_registry

FIELD = Path(__file__).parent
HEADERS = {
    file.relative_to(FIELD): (found[1], found[2])
    for file in sorted(FIELD.rglob("*.*"))
    if file.suffix in (".py", ".cu", ".cuh", ".cpp", ".hpp")
    if (found := re.match(r"(?:#|//) (0|1|2|paste) (.*)", file.read_text()))
}
MARKED = [
    pytest.param(file, id=str(file), marks=pytest.mark.process if "pp" not in file.suffix else pytest.mark.compile)
    for file in HEADERS
]
CALLED = {file: said.removeprefix("Called as ") for file, (_, said) in HEADERS.items() if said.startswith("Called as")}

LACKING = {
    "import sgl_kernel": "needs sgl_kernel, which is not installed here; install it first",
    "assert torch.ones(1).is_cuda": "needs an NVIDIA GPU to run (assert torch.ones(1).is_cuda)",
}


@pytest.mark.parametrize("file", CALLED, ids=str)
def test_the_call_is_among_the_likely_ones(file):
    registry, kernel = Registry(REPOSITORY), KernelFile(FIELD / file)
    drafts = draft_calls(registry, kernel, choose_definition(registry, kernel))
    assert any(call.text.startswith(CALLED[file]) for call in drafts)
    assert file.suffix == ".py" or len({call.callee for call in drafts}) == 1


def test_the_page_lists_every_kernel():
    page = (REPOSITORY / "docs/appendix/calls.md").read_text()
    listed = {file: f"| `{file}` | `{CALLED[file]}` |" if file in CALLED else f"`{file}`" for file in HEADERS}
    assert [file for file, row in listed.items() if row not in page] == []
    assert f"{len(HEADERS)} small kernels" in page


@pytest.fixture
def rooted(tmp_path):
    """The committed Definitions, where others may be added."""
    registry = make_empty_registry(tmp_path / "registry")
    for definition in Registry(REPOSITORY).definitions().values():
        registry.write_definition(definition)
    (registry.root / "registry.toml").write_text('main_definition = "rmsnorm_d4096"\n')
    return registry.root


@pytest.mark.parametrize("file", MARKED)
def test_a_kernel_as_its_author_wrote_it(fib, file, rooted):
    code, said = HEADERS[file]
    asked = ("try", FIELD / file, "--check", "--batch-sizes", "1", "--timeout", "600", "--root", rooted)
    outcome = fib(*asked)
    said = "to compile it here, run: fib-rmsnorm explain" if ".cu" in file.suffix else CALLED.get(file, said)
    assert said in outcome.out + outcome.err
    assert "RuntimeWarning" not in outcome.out, "of Triton's interpreter"
    if code != "paste":
        assert outcome.code == int(code), outcome.out + outcome.err
        return
    given: list[str] = []
    while outcome.code:  # each line that is pasted leads on
        lines = [line for line in (outcome.out + outcome.err).splitlines() if line.startswith(("--", "fib-rmsnorm "))]
        assert lines, outcome.out + outcome.err
        pasted = shlex.split(said if said in lines else lines[0])
        assert pasted != given
        if pasted[0] == "fib-rmsnorm":
            assert fib(*pasted[1:], "--root", rooted).code == 0
            given = []  # what is defined is the main Definition
        else:
            given = pasted
        outcome = fib(*asked, *given)


@pytest.mark.process
@pytest.mark.parametrize(("line", "said"), LACKING.items())
def test_a_kernel_is_not_judged_where_a_machine_lacks_what_it_needs(fib, tmp_path, rooted, line, said):
    kernel = tmp_path / "kernel.py"
    kernel.write_text(f"import torch\n{line}\n\ndef run(x, weight, eps):\n    return x\n")
    refused = fib("try", kernel, "--check", "--batch-sizes", "1", "--root", rooted)
    assert (refused.code, refused.err.splitlines()[-1]) == (2, f"fib-rmsnorm: kernel.py was not judged: {said}")


def test_a_dtype_that_torch_lacks_ends_a_try_in_one_line(fib, registry):
    made = RmsNorm().define(256)
    lacking = made.inputs["x"].model_copy(update={"dtype": DType.FLOAT4_E2M1})
    registry.write_definition(made.model_copy(update={"name": "fp4", "inputs": {**made.inputs, "x": lacking}}))
    refused = fib("try", FIELD / "weight_first.py", "--definition", "fp4", "--root", registry.root)
    said = "fp4: torch has no tensors of the dtype of x (float4_e2m1), so none can be made"
    assert (refused.code, refused.refusal) == (2, said)
