"""What `new` writes is right on every Definition of RMSNorm, and says what it is on any other."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.operators import RmsNorm, find_operator, list_operators
from fib_rmsnorm.operators.norms.fused_add_rmsnorm import FusedAddRmsNorm
from fib_rmsnorm.operators.norms.layernorm import LayerNormBias, LayerNormOperator
from fib_rmsnorm.operators.norms.rmsnorm import RmsNormGemma, RmsNormLlama
from fib_rmsnorm.operators.norms.rmsnorm_epilogues import RmsNormBias
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import Definition, EvaluationStatus, Workload
from support.command_line import run_python
from support.judged_kernels import find_wrong, find_wrong_interpreted
from support.paths import REPOSITORY
from support.registries import QUICK, make_definition, make_registry

SUFFIXES = {"triton": ".py", "cuda": ".cu", "cpp": ".cpp", "tilelang": ".py", "cutedsl": ".py", "python": ".py"}
HAS_TILELANG = importlib.util.find_spec("tilelang") is not None
HIDDEN = 384  # no power of two, and not the size that the Definitions of most models have
DTYPES = ("float16", "bfloat16", "float32")
CONVENTIONS = (RmsNormLlama(), RmsNormGemma())
IN_EVERY_LANGUAGE = [
    each.define(HIDDEN)
    for each in (RmsNorm(), RmsNormBias(), *CONVENTIONS, FusedAddRmsNorm(), LayerNormOperator(), LayerNormBias())
]
JUDGED = (*IN_EVERY_LANGUAGE, *(RmsNorm().define(HIDDEN, dtype) for dtype in DTYPES[1:]))
REFERENCE = '''\
"""Scaled by a number."""

from __future__ import annotations

def run(x, new, flag):
    return x * new if flag else x, x.sum(dim=-1)
'''


SCALE = make_definition(
    "scale",
    REFERENCE,
    {"x": "float32 batch hidden", "new": "float32", "flag": "bool"},
    {"y": "float32 batch hidden", "sums": "float32 batch"},
    "elementwise",
    hidden=96,
)
"""A Definition of an operator that nobody knows: a number, a flag and two outputs."""


def add_starting_kernel(registry: Registry, definition: Definition, language: str) -> None:
    """Register what `new` writes, as `try` would read it."""
    file = registry.root / f"{definition.name}_{language}{SUFFIXES[language]}"
    file.write_text(make_starting_kernel(definition, language).text)
    draft = draft_solution(registry, KernelFile(file), definition)
    registry.write_solution(draft.model_copy(update={"name": file.stem}), definition.op_type)


def check(root: Path, languages: Sequence[str], device: str) -> None:
    """The norms' kernels and references pass; a skeleton compiles, and says that it is not written."""
    registry, other = make_registry(root, HIDDEN, (1,)), SCALE
    inputs = {"x": {"type": "random"}, "new": {"type": "scalar", "value": 3.0}, "flag": {"type": "scalar", "value": 1}}
    workloads = {each.name: generate_workloads(each, (1,)) for each in JUDGED}
    workloads[other.name] = [Workload.model_validate({"axes": {"batch": 2}, "inputs": inputs, "uuid": "scale"})]
    for definition in (*JUDGED, other):
        registry.write_definition(definition)
        registry.write_workloads(definition, workloads[definition.name])
        for language in languages:
            add_starting_kernel(registry, definition, language)
    events = bench(registry, BenchOptions(settings=QUICK, device=device))
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    found = {each.solution: (each.evaluation.status, each.evaluation.log[:300]) for each in traces}
    skeletons = {f"scale_{language}" for language in {"cpp", "cuda"}.intersection(languages)}
    right = {f"{definition}_{language}" for definition in workloads for language in languages} - skeletons
    assert {name for name, (status, _) in found.items() if status is EvaluationStatus.PASSED} == right, found
    for status, log in (found[name] for name in skeletons):
        assert status is EvaluationStatus.RUNTIME_ERROR and "the kernel is not written yet" in log


@pytest.mark.compile
def test_starting_kernels_are_right_on_a_cpu(tmp_path):
    check(tmp_path, ["cpp", "python", *(["tilelang"] if HAS_TILELANG else [])], "cpu")


@pytest.mark.gpu
def test_starting_kernels_are_right_on_a_gpu(tmp_path):
    languages = ["python", "triton", "cuda", *(["tilelang"] if HAS_TILELANG else [])]
    languages += ["cutedsl"] if importlib.util.find_spec("cutlass") else []
    check(tmp_path, languages, "cuda")


MIXED = (
    *("rmsnorm", "rmsnorm_bias", "rmsnorm_relu", "rmsnorm_silu_gate"),
    *("fused_add_rmsnorm", "layernorm", "layernorm_bias"),
)
"""Their weight may be float32 beside 16 bits."""
BACKWARD = ("rmsnorm_backward", "rmsnorm_bias_backward", "layernorm_backward", "fused_add_rmsnorm_backward")
IN_TRITON = (*MIXED, "rmsnorm_no_weight", "layernorm_no_weight", "layernorm_scale_shift", *BACKWARD)


def list_definitions(operator: str) -> list[Definition]:
    """Definitions of all dtypes, and of a weight in float32."""
    known = find_operator(operator)
    mixed = [known.define(HIDDEN, "bf16,weight=float32")] if operator in MIXED else []
    return [*(known.define(HIDDEN, dtype) for dtype in DTYPES), *mixed]


@pytest.mark.compile
@pytest.mark.parametrize(
    ("operator", "count"),  # a build takes seconds: of those that share their parts, one is built for each dtype
    [
        ("rmsnorm_bias", 4),
        ("fused_add_rmsnorm", 4),
        ("rmsnorm_silu_gate", 1),
        ("layernorm_scale_shift", 1),
        *((each, 1) for each in BACKWARD),
    ],
)
def test_in_cpp_it_is_right_in_each_dtype(operator, count, tmp_path):
    assert find_wrong("cpp", list_definitions(operator)[:count], tmp_path) == []


@pytest.mark.compile
def test_in_triton_it_is_right_in_each_dtype():
    """Those of a convention in one dtype: the interpreter rounds to bfloat16 otherwise, and they round twice."""
    definitions = [each for operator in IN_TRITON for each in list_definitions(operator)]
    definitions += [each.define(HIDDEN) for each in CONVENTIONS]
    definitions += [RmsNormBias().define(HIDDEN, "weight=float32,bias=float16")]
    assert find_wrong_interpreted("triton", definitions) == []


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.parametrize(
    "definition",
    [
        *(find_operator(each).define(HIDDEN) for each in ("rmsnorm", "rmsnorm_silu_gate", "layernorm_bias", *BACKWARD)),
        find_operator("layernorm_scale_shift").define(HIDDEN),
        *(each.define(HIDDEN) for each in CONVENTIONS),
        SCALE,
    ],
    ids=lambda each: each.name,
)
def test_in_cuda_it_compiles(definition, tmp_path):
    """A kernel, or the skeleton of one."""
    registry = make_registry(tmp_path)
    add_starting_kernel(registry, definition, "cuda")
    (solution,) = registry.packed_solutions().values()
    assert build_native(solution, tmp_path / "cache", "9.0").exists()


COMPILE = """import torch
from kernel import compiled
for dtype in (torch.float16, torch.bfloat16, torch.float32):
    compiled(100, dtype)
"""


@pytest.mark.compile
@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl")
@pytest.mark.parametrize("definition", IN_EVERY_LANGUAGE, ids=lambda each: each.name)
def test_the_cutedsl_kernel_compiles_for_a_gpu_that_is_not_there(definition, tmp_path):
    (tmp_path / "kernel.py").write_text(make_starting_kernel(definition, "cutedsl").text)
    variables = {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": str(tmp_path)}
    run_python("-c", COMPILE, cwd=tmp_path, **variables)
    assert len(list(tmp_path.glob("*.ptx"))) == 3


def write_all(folder: Path) -> list[Path]:
    """A file for each kernel of each operator, in each language that it has."""
    written = []
    for operator in list_operators():
        definition = operator.define()
        for language, suffix in SUFFIXES.items():
            kernel = make_starting_kernel(definition, language)
            if kernel.kind == "kernel":
                written.append(folder / f"{definition.name}_{language}{suffix}")
                written[-1].write_text(kernel.text)
    return written


def test_kernels_are_formatted_as_the_rest_of_the_repository(tmp_path):
    files = write_all(tmp_path)
    python, cpp = ([str(each) for each in files if (each.suffix == ".py") == is_python] for is_python in (True, False))
    assert len(python) > 25 and len(cpp) > 20
    binaries, settings = Path(sys.executable).parent, str(REPOSITORY / "pyproject.toml")
    style = f"--style=file:{REPOSITORY / '.clang-format'}"
    for command in (
        ["ruff", "format", "--check", "--diff", "--config", settings, *python],
        ["ruff", "check", "--config", settings, "--select", "E,F,W,I,B,UP,SIM", *python],
        ["clang-format", style, "--dry-run", "-Werror", *cpp],
    ):
        done = subprocess.run([binaries / command[0], *command[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "changed",
    [{"dtype": "float8_e4m3fn"}, {"dtype": "float16"}, {"order": ["weight", "x", "eps"]}],
    ids=["unknown dtype", "dtypes that differ", "another order"],
)
def test_parameters_that_no_kernel_takes_get_the_reference(changed):
    record = RmsNorm().define(HIDDEN, "float32").model_dump()
    record["inputs"] = {name: record["inputs"][name] for name in changed.get("order", record["inputs"])}
    record["inputs"]["weight"]["dtype"] = changed.get("dtype", "float32")
    kernel = make_starting_kernel(Definition.model_validate(record), "triton")
    assert kernel.kind == "reference"


def test_a_skeleton_has_the_parameters_of_its_definition():
    lines = make_starting_kernel(SCALE, "cpp").text.splitlines()
    assert "// x: float32, (batch, hidden)" in lines
    assert "// sums: float32, (batch), which run writes" in lines
    assert "void run(TensorView x, double new_, bool flag, TensorView y, TensorView sums) {" in lines
