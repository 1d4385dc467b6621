"""`fib-rmsnorm adapt`: shipped kernels serve Definitions that flashinfer-bench wrote, by the same sources."""

import json
from importlib.util import find_spec

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm, list_candidates
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.adaptation import adapt, find_kernels
from fib_rmsnorm.schema import AxisConst, Definition, digest
from support.command_line import QUICK_OPTIONS
from support.norms import UPSTREAM, UPSTREAM_FUSED_ADD, define_norm, define_sum_norm
from support.paths import REPOSITORY, files_of
from support.registries import make_empty_registry

PLAIN = define_norm("rmsnorm_h128", UPSTREAM, ("hidden_states", "weight", "output"), eps=None, dtype="bfloat16")
ADDS = define_sum_norm("fused_add_rmsnorm_h128", UPSTREAM_FUSED_ADD, dtype="bfloat16")
EPS = {PLAIN.name: 1e-5, ADDS.name: 1e-6}


KINDS = ("cpp_simd_v1", "cuda_vec16_v1", "python_flashinfer_v1", "python_torch_v1", "triton_row_v1")


def make_dataset(root):
    """As flashinfer-bench's: its Definitions, and nothing of ours."""
    registry = make_empty_registry(root)
    for definition in (PLAIN, ADDS):
        registry.write_definition(definition)
    return registry


@pytest.fixture
def registry(tmp_path):
    return make_dataset(tmp_path / "dataset")


@pytest.fixture(scope="module")
def kernels():
    found = find_kernels([Registry(REPOSITORY)])
    return [each for each in found if each.manifest.name.endswith(KINDS)]


@pytest.fixture(scope="module")
def adapted(tmp_path_factory, kernels):
    """A dataset, and its adapted Solutions by Definition and kernel."""
    registry = make_dataset(tmp_path_factory.mktemp("adapted") / "dataset")
    return registry, {each.name: write(registry, kernels, each) for each in (PLAIN, ADDS)}


def recognise(definition):
    """What the judge finds by calling the reference."""
    return next(
        each
        for candidates in list_candidates(definition)
        for each in candidates
        if each.operator == definition.name.removesuffix("_h128") and each.constants == {"eps": EPS[definition.name]}
    )


def write(registry, kernels, definition):
    """The adapted Solutions by their kernels."""
    found = adapt(registry, kernels, definition, recognise(definition))
    assert not isinstance(found, str), found
    return {each.kernel: each for each in found}


def texts(solution):
    return {source.path: source.content for source in solution.sources}


@pytest.mark.parametrize("definition", [PLAIN, ADDS], ids=lambda each: each.name)
def test_the_sources_are_those_of_the_kernel_and_a_call(adapted, definition):
    operator = definition.name.removesuffix("_h128")
    registry, found = adapted[0], adapted[1][definition.name]
    assert found.keys() == {f"{operator}_{kind}" for kind in KINDS}
    shipped = Registry(REPOSITORY).packed_solutions()
    packed = registry.packed_solutions()
    for name, each in found.items():
        if each.solution is None:
            assert (name, each.reason) == ("fused_add_rmsnorm_python_flashinfer_v1", "it writes to its inputs")
            continue
        assert packed[f"{name}_h128"] == each.solution and each.solution.definition == definition.name
        entry, _, function = each.solution.spec.entry_point.partition("::")
        added = {path: text for path, text in texts(each.solution).items() if path not in texts(shipped[name])}
        assert added.keys() == {entry} and texts(shipped[name]).items() <= texts(each.solution).items()
        made_of = f"{name} (SHA-256 {digest(shipped[name])[:12]}), eps = {EPS[definition.name]!r}."
        assert made_of in added[entry] and each.solution.description.startswith(made_of)
        assert (entry, function) in (("adapter.py", "run"), ("adapter.cpp", "run_adapted"))


def test_what_is_there_is_written_again_and_packed_by_solve(fib, adapted, kernels):
    registry, _ = adapted
    before = files_of(registry.root)
    write(registry, kernels, PLAIN)
    assert fib("solve", "--root", registry.root).code == 0
    assert files_of(registry.root) == before
    assert not {each.manifest.name for each in find_kernels([registry])}  # an adapted one is not adapted again


def test_nothing_that_others_wrote_is_replaced(registry, kernels):
    kernels = [each for each in kernels if each.manifest.name == "rmsnorm_triton_row_v1"]
    write(registry, kernels, PLAIN)
    solutions = registry.layout.solutions / "fib-rmsnorm"
    manifest = solutions / "norm" / PLAIN.name / "rmsnorm_triton_row_v1_h128" / "solution.toml"
    text = manifest.read_text()
    manifest.write_text(text.partition("\n")[2])
    with pytest.raises(InputError, match="exists, and fib-rmsnorm adapt did not write it; remove it first"):
        write(registry, kernels, PLAIN)
    manifest.write_text(text)
    (solutions / "shared" / "triton" / "norm_rows.py").write_text("X = 1\n")
    with pytest.raises(InputError, match=r"norm_rows\.py differs from the file of this version; remove it"):
        write(registry, kernels, PLAIN)


def test_an_odd_size_is_served_like_another(registry, kernels):
    odd = Definition.model_validate({**PLAIN.model_dump(), "axes": {**PLAIN.axes, "channels": AxisConst(value=100)}})
    assert any(each.solution for each in write(registry, kernels, odd).values())


def test_why_no_kernel_is_adapted(registry, kernels):
    found = recognise(PLAIN)
    odd = Definition.model_validate({**PLAIN.model_dump(), "axes": {**PLAIN.axes, "channels": AxisConst(value=2**21)}})
    said = adapt(registry, kernels, odd, found)
    assert said == "kernels of rmsnorm are for other sizes or dtypes: hidden must be 1 to 1048576, not 2097152"
    assert adapt(registry, [], PLAIN, found) == "no kernel serves rmsnorm_d128_bf16, which is what it computes"
    own = RmsNorm().define(4096)
    found = next(each for each, *_ in list_candidates(own) if each.operator == "rmsnorm")
    assert adapt(registry, kernels, own, found) == "the kernels of rmsnorm serve it as they are"


@pytest.mark.compile
def test_adapted_solutions_pass(fib, registry):
    check_all_pass(fib, registry, "cpu", ("cpp_simd_v1", "python_torch_v1", "tilelang_row_v1", "triton_row_v1"))


@pytest.mark.gpu
@pytest.mark.compile
def test_adapted_solutions_pass_on_a_gpu(fib, registry):
    kinds = ["cuda_vec16_v1", "python_torch_v1", "tilelang_row_v1", "triton_row_v1"]
    check_all_pass(fib, registry, "cuda", kinds + ["python_cutedsl_v1"] * (find_spec("cutlass") is not None))


def check_all_pass(fib, registry, device, kinds):
    made = fib("adapt", "--root", registry.root, "--json").answer
    found = {record["definition"]: record for record in made}
    assert {name: record["constants"]["eps"] for name, record in found.items()} == EPS
    options = (*QUICK_OPTIONS[:-2], "--device", device, "--batch-sizes", "7")
    chosen = ",".join(f"*{kind}_h128" for kind in kinds)
    assert fib("workload", "--definition", PLAIN.name, "--batch-sizes", "7", "--root", registry.root).code == 0
    assert fib("workload", "--definition", ADDS.name, "--batch-sizes", "7", "--root", registry.root).code == 0
    outcome = fib("bench", *options, "--solutions", chosen, "--root", registry.root, "--json")
    traces = [json.loads(line) for line in outcome.out.splitlines()]
    assert {trace["solution"]: trace["evaluation"]["status"] for trace in traces} == {
        f"{name.removesuffix('_h128')}_{kind}_h128": "PASSED" for name in EPS for kind in kinds
    }, outcome.err
    assert {trace["evaluation"]["judged_by"] for trace in traces} == {"rmsnorm", "fused_add_rmsnorm"}


@pytest.mark.compile
def test_a_definition_of_no_known_operator_is_reported(fib, registry):
    unknown = PLAIN.reference.replace("return y", "return 2 * y")
    registry.write_definition(PLAIN.model_copy(update={"name": "double_h128", "reference": unknown}))
    outcome = fib("adapt", "--definitions", "double_h128", "--root", registry.root)
    assert outcome.code == 2 and "double_h128: its reference computes no known operator" in outcome.err
    assert "no kernel was adapted" in outcome.err and not registry.packed_solutions()
    registry.write_definition(own := RmsNorm().define(4096))
    outcome = fib("adapt", "--definitions", own.name, "--root", registry.root, "--json")
    assert outcome.answer == [] and outcome.err.startswith(f"{own.name}: the kernels of rmsnorm serve it as they are")
