"""The schema's models are flashinfer-bench's own or subclasses of them, and need no torch."""

import ast
import shutil

import pytest
from pydantic import BaseModel, ValidationError

from fib_rmsnorm import schema
from fib_rmsnorm.schema import upstream
from support.command_line import run_python
from support.kernels import DEFINITION, read_kernels
from support.paths import REPOSITORY

# A name with ? is optional.
FIELDS = {
    "AxisConst": "type? value description?",
    "AxisVar": "type? description?",
    "TensorSpec": "shape dtype description?",
    "Definition": "name op_type axes inputs outputs reference tags? description? constraints?",
    "SourceFile": "path content",
    "BuildSpec": "language target_hardware entry_point dependencies? destination_passing_style? binding?",
    "Solution": "name definition author spec sources description?",
    "RandomInput": "type?",
    "ScalarInput": "type? value",
    "SafetensorsInput": "type? path tensor_key",
    "Workload": "axes inputs uuid",
    "Correctness": "max_relative_error? max_absolute_error? extra?",
    "Performance": "latency_ms? reference_latency_ms? speedup_factor?",
    "Environment": "hardware libs?",
    "Evaluation": "status environment timestamp log? correctness? performance?",
    "Trace": "definition workload solution? evaluation?",
}
CHOICES = {
    "DType": "float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1 int64 int32 int16 int8 bool",
    "SupportedLanguages": "python triton cpp cuda tilelang",
    "SupportedBindings": "tvm-ffi torch",
    "EvaluationStatus": (
        "PASSED INCORRECT_SHAPE INCORRECT_NUMERICAL INCORRECT_DTYPE RUNTIME_ERROR COMPILE_ERROR TIMEOUT"
    ),
}


def describe(model: type[BaseModel]) -> str:
    return " ".join(name + "?" * (not field.is_required()) for name, field in model.model_fields.items())


def test_upstreams_fields_are_those_that_this_tool_knows():
    """If this fails, flashinfer-bench has changed its schema: see what that means to every reader and writer."""
    assert {name: describe(getattr(upstream, name)) for name in FIELDS} == FIELDS
    assert {name: " ".join(each.value for each in getattr(upstream, name)) for name in CHOICES} == CHOICES
    modules = {name: getattr(each, "__module__", None) or "" for name, each in vars(upstream).items()}
    theirs = {name for name, module in modules.items() if module.startswith("flashinfer_bench.")}
    assert FIELDS.keys() | CHOICES.keys() == theirs


@pytest.mark.parametrize("name", FIELDS)
def test_added_fields_come_after_upstreams_and_are_optional(name):
    theirs, ours = FIELDS[name].split(), describe(getattr(schema, name)).split()
    assert issubclass(getattr(schema, name), getattr(upstream, name))
    assert ours[: len(theirs)] == theirs
    assert all(field.endswith("?") for field in ours[len(theirs) :])


THEIRS = "import flashinfer_bench"
OURS = "from fib_rmsnorm import schema"
IN_BOTH_ORDERS = """
from flashinfer_bench.data import Definition, Trace, TraceSet
import flashinfer_bench.data.definition
import flashinfer_bench.utils
loaded = TraceSet.from_path(ROOT)
assert schema.upstream.Definition is Definition is flashinfer_bench.data.definition.Definition
assert flashinfer_bench.Definition is Definition
assert isinstance(loaded.definitions["rmsnorm_d4096"], Definition)
assert isinstance(schema.Trace(**loaded.workloads["rmsnorm_d4096"][0].model_dump()), Trace)
assert callable(flashinfer_bench.apply) and "Benchmark" in flashinfer_bench.__all__
print(type(flashinfer_bench).__name__, type(flashinfer_bench.data).__name__, flashinfer_bench.utils.__name__)
"""


@pytest.mark.process
@pytest.mark.parametrize("imports", [(THEIRS, OURS), (OURS, THEIRS)], ids=["upstream first", "schema first"])
def test_upstreams_package_works_beside_the_schema(imports, tmp_path):
    """It is whole, and its classes are those that the schema extends, whichever is imported first."""
    for folder in ("definitions", "workloads"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    code = "\n".join([*imports, f"ROOT = {str(tmp_path)!r}", IN_BOTH_ORDERS])
    assert run_python("-W", "ignore", "-c", code) == "module module flashinfer_bench.utils\n"


def test_a_package_that_cannot_be_imported_says_so_each_time():
    code = f"""{OURS}
import sys
sys.modules["torch"] = None
for _ in range(2):
    try:
        from flashinfer_bench.data import TraceSet
    except ImportError as error:
        print(error)
"""
    assert run_python("-c", code).count("import of torch halted") == 2


def test_solutions_are_equal_if_all_their_fields_are():
    """flashinfer-bench compares a digest without them: the target hardware, the description."""
    solution = read_kernels("honest")["cpp_header_in_a_folder"].solution(DEFINITION)
    again = schema.Solution.model_validate_json(solution.model_dump_json())
    assert solution == again
    spec = solution.spec.model_copy(update={"target_hardware": ["cuda"]})
    for changed in ({"spec": spec}, {"description": "another"}, {"name": "another"}):
        assert solution != solution.model_copy(update=changed)
        assert again.model_copy(update=changed) == solution.model_copy(update=changed)


class Request(BaseModel):
    definition: schema.CheckedDefinition


def test_a_definition_is_checked_where_a_request_arrives_and_not_where_it_is_sent(monkeypatch):
    text = (REPOSITORY / "definitions" / "norm" / "rmsnorm_d4096.json").read_text()
    message = f'{{"definition": {text}}}'
    definition = Request.model_validate_json(message).definition
    assert definition.name == "rmsnorm_d4096"
    with pytest.raises(ValidationError, match="named 'run'"):
        Request.model_validate_json(message.replace("def run(", "def stand("))

    def fail(*arguments, **options):
        raise SystemError("two threads parse at once")

    monkeypatch.setattr(ast, "parse", fail)
    assert Request(definition=definition).definition is definition
