"""`define`, `workload`, `new` and `register`, as their user meets them."""

from functools import partial
from shlex import split

import pytest

from fib_rmsnorm.registry import generate_workloads
from support.full_registry import DEFINITION, PYTHON_FOLDER
from support.kernels import change
from support.paths import files_of, write
from support.record_faults import edit_text
from support.registries import RIGHT, add_sources


def following(outcome) -> str:
    assert outcome.code == 0 and outcome.lines[-2] == "Next:"
    return outcome.lines[-1].strip()


def test_what_follows_is_what_the_definition_lacks(fib, full_registry):
    bench, root = f"fib-rmsnorm bench --definitions {DEFINITION}", ("--root", str(full_registry.root))
    assert following(fib("define", "--hidden", "128")) == bench
    assert following(fib("define", "--hidden", "128", *root)) == " ".join((bench, *root))
    arguments = ("define", "layernorm_bias", "--hidden", "128")
    workloads = following(fib(*arguments))
    assert workloads == "fib-rmsnorm workload --definition layernorm_bias_d128"
    definition = full_registry.definition("layernorm_bias_d128")
    full_registry.write_workloads(definition, generate_workloads(definition, [8]))
    assert following(fib(*arguments)) == "fib-rmsnorm new triton kernel.py --definition layernorm_bias_d128"


def test_an_edited_definition_is_not_replaced(fib, full_registry):
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
    said = f"{path} differs in reference, description; to lose what it has there, remove the file first"
    assert refused.refusal == said
    assert full_registry.definition("layernorm_d128") == edited
    path.unlink()
    assert fib(*arguments).code == 0 and path.read_text() == written


def test_sources_that_serve_the_definition_can_be_benched(fib, full_registry):
    edit_text(f"{PYTHON_FOLDER}/solution.toml", "[spec]", 'definitions = ["rmsnorm_d*"]\n\n[spec]')
    assert fib("define", "--hidden", "256").code == 0
    assert fib("workload", "--definition", "rmsnorm_d256", "--batch-sizes", "1").code == 0
    assert following(fib("define", "--hidden", "256")) == "fib-rmsnorm bench --definitions rmsnorm_d256"


def test_workloads_that_are_there_are_kept_and_with_json_those_that_were_asked_for_are_printed(fib, full_registry):
    before = full_registry.workloads(DEFINITION)
    outcome = fib("workload", "--definition", DEFINITION, "--batch-sizes", "4,8")
    assert outcome.code == 0 and outcome.err == ""
    assert [each.axes["batch"] for each in full_registry.workloads(DEFINITION)] == [1, 4, 8]
    assert [each for each in full_registry.workloads(DEFINITION) if each.axes["batch"] != 4] == before
    assert "Wrote workloads/norm/rmsnorm_d128.jsonl; kept 1 existing Workload" in outcome.lines
    outcome = fib("workload", "--definition", DEFINITION, "--batch-sizes", "1,32", "--json")
    assert [each["axes"] for each in outcome.json] == [{"batch": 1}, {"batch": 32}]


@pytest.fixture
def new(fib, registry):
    """Write a kernel to start from."""
    return partial(fib, "new", "--definition", "rmsnorm_d128", "--root", registry.root)


def test_says_what_it_wrote_and_the_next_command_which_passes(new, fib, registry):
    outcome = new("cpp", "kernel.cpp")
    following = f"fib-rmsnorm try kernel.cpp --root {registry.root}"
    assert outcome.code == 0
    assert outcome.lines == ["Wrote kernel.cpp: a correct kernel in C++ for rmsnorm_d128", "Next:", f"  {following}"]
    tried = fib(*split(following)[1:], "--batch-sizes", "1", "--device", "cpu")
    assert tried.code == 0, tried.out


def test_facts_as_json(new):
    record = new("cuda", "kernel.cu", "--json").json
    assert record.pop("next").startswith("fib-rmsnorm try kernel.cu ")
    assert record == {"file": "kernel.cu", "definition": "rmsnorm_d128", "language": "cuda", "kind": "kernel"}


NAME = "rmsnorm_python_mine_v1"
CPP = """\
#include "norm/row.h"
void Run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps, tvm::ffi::TensorView out) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
"""


@pytest.fixture
def register(fib, registry, tmp_path):
    """Register a file of these sources; the first is the kernel."""

    def run(files: dict[str, str], *options: str, name: str = NAME, author: str = "ann"):
        for path, content in files.items():
            write(tmp_path / path, content)
        common = ("--name", name, "--author", author, "--definition", "rmsnorm_d128", "--root", registry.root)
        return fib("register", tmp_path / next(iter(files)), *common, *options)

    return run


def test_a_registered_file_is_packed_as_it_was_tried(fib, register, registry):
    helped = f"import helper\n{RIGHT}"
    outcome = register({"kernel.py": helped, "helper.py": "X = 1\n"})
    folder = registry.layout.solutions / "ann" / "norm" / "rmsnorm_d128" / NAME
    assert outcome.code == 0 and outcome.err == ""
    assert outcome.lines == [
        f"Registered {NAME} in solutions/ann/norm/rmsnorm_d128/{NAME}/: helper.py, kernel.py, solution.toml",
        "It is filed under rmsnorm_d128, and not judged yet.",
        "Next:",
        f"  fib-rmsnorm bench --solutions {NAME} --root {registry.root}",
    ]
    assert {path.name for path in folder.iterdir()} == {"kernel.py", "helper.py", "solution.toml"}
    solution = registry.packed_solutions()[NAME]
    assert solution.author == "ann"
    assert (solution.spec.entry_point, solution.spec.destination_passing_style) == ("kernel.py::run", False)
    before = files_of(registry.root)
    assert fib("solve", "--root", registry.root).code == 0
    assert files_of(registry.root) == before  # what a command packs again is the same


TORCH_ONLY = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)


def launch(x):
    kernel[(1,)](x, BLOCK=16)


def run(x, weight, eps):
    BLOCK = triton.next_power_of_2(x.shape[-1])
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)


def other(weight, x, eps):
    return run(x, weight, eps)
"""


@pytest.mark.parametrize(
    ("call", "launch"),
    [
        *((call, "") for call in ("run", "other", "other(weight, x, eps)")),
        *(("run", launch) for launch in ("launch(x)", "kernel.run(x)", "torch.ops.mine.norm(x)", "somewhere.norm(x)")),
    ],
)
def test_the_language_is_that_of_what_is_launched_not_of_what_is_imported(register, registry, call, launch):
    source = "import somewhere\n" + TORCH_ONLY.replace("    BLOCK =", f"    {launch}\n    BLOCK =")
    outcome = register({"kernel.py": source}, "--call", call)
    (solution,) = registry.packed_solutions().values()
    assert solution.spec.language.value == ("triton" if launch else "python")
    said = "launches no Triton kernel, so its language is Python: it runs torch.nn.functional.rms_norm\n"
    assert outcome.err.endswith("" if launch else said) and bool(outcome.err) != bool(launch)


def test_sources_beside_it_that_cannot_be_packed_are_in_the_way_of_their_name_alone(register, registry):
    add_sources(registry, "other_v1", {"kernel.py": RIGHT}, "[[[")
    assert register({"kernel.py": RIGHT}).code == 0
    outcome = register({"kernel.py": RIGHT}, name="other_v1")
    assert "'other_v1' exists already (rmsnorm_d128, by tester)" in outcome.refusal


def test_what_a_cpp_kernel_includes_comes_with_it(register, registry):
    outcome = register({"k.cpp": CPP, "norm/row.h": "#pragma once\n"}, "--json", name="rmsnorm_cpp_mine_v1")
    assert outcome.json["files"] == ["k.cpp", "norm/row.h", "solution.toml"]
    (solution,) = registry.packed_solutions().values()
    assert (solution.spec.target_hardware, solution.spec.binding.value) == (["cpu"], "tvm-ffi")


def test_sources_that_cannot_be_packed_are_removed_again(register, registry):
    before = files_of(registry.root)
    hidden = {".kernel.cpp": CPP.replace('#include "norm/row.h"\n', "")}  # such files are not packed
    outcome = register(hidden, author="bob")
    assert "no sources beside solution.toml" in outcome.refusal
    assert files_of(registry.root) == before


@pytest.mark.parametrize(
    ("operator", "dtypes", "name", "wide"),
    [
        ("fused_add_rmsnorm", "bf16,weight=float32", "fused_add_rmsnorm_d128_bf16_weight_fp32", "weight"),
        ("rmsnorm_bias", "weight=float32,bias=float16", "rmsnorm_bias_d128_weight_fp32_bias_fp16", "weight"),
        ("rmsnorm_bias", "bias=float32", "rmsnorm_bias_d128_bias_fp32", "bias"),
    ],
)
def test_it_is_judged_by_what_float32_holds(fib, full_registry, operator, dtypes, name, wide):
    defined = fib("define", operator, "--hidden", "128", "--dtype", dtypes)
    assert f"Wrote definitions/norm/{name}.json" in defined.lines
    right, verdicts = full_registry.definition(name).reference, {}
    wrong = change(right, f"{wide}.to(", f"{wide}.to(x.dtype).to(")
    for file, source in {"right.py": right, "wrong.py": wrong}.items():
        (full_registry.root / file).write_text(source)
        tried = fib("try", file, "--definition", name, "--device", "cpu", "--check", "--batch-sizes", "32")
        verdicts[file] = (tried.code, tried.lines[-1])
    assert verdicts["right.py"][0] == 0 and f"right.py PASSED as {name} " in verdicts["right.py"][1]
    assert (
        verdicts["wrong.py"][0] == 1
        and "1 of 1 workload: INCORRECT_NUMERICAL: workload: out: " in verdicts["wrong.py"][1]
    )
