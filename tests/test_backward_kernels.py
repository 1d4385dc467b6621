"""Backward passes: on GPUs where it matters how they are called, in C++ at every instruction set and on all threads."""

import shutil

import pytest
import torch

from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.operators.norms.mistakes.rows import dtype_name
from fib_rmsnorm.schema import Definition
from support import kernel_calls
from support.judged_kernels import define
from support.paths import REPOSITORY

SOLUTION = "{}_cuda_vec16_v1"
MANY = 4099
"""Rows for which blocks stay, so that their sums are added by a second kernel."""
FAR_AHEAD = 48
"""Rows for each multiprocessor from which LayerNorm's are requested far ahead."""


@pytest.fixture(params=kernel_calls.OPERATORS)
def operator(request):
    return request.param


@pytest.fixture
def entry(operator):
    return kernel_calls.load_cuda(SOLUTION.format(operator))


def make_call(operator, rows, hidden, dtype=torch.float16, weight_dtype=None, **options):
    """A call whose weight, and so the sums over rows, may have another dtype."""
    record = define(f"{operator}_d{hidden}{kernel_calls.SUFFIXES[dtype]}").model_dump()
    for part, spec in {**record["inputs"], **record["outputs"]}.items():
        if weight_dtype is not None and part in ("weight", "dweight", "dbias"):
            spec["dtype"] = dtype_name(weight_dtype)
    return kernel_calls.NormCall(Definition.model_validate(record), rows, **options)


def check(entry, operator, rows, sizes, dtype=torch.float16, offset=0):
    """Gradients are right, and the same in every run."""
    for hidden in sizes:
        call = make_call(operator, rows, hidden, dtype, offset=offset)
        first, *others = (call.call(entry) for _ in range(8))
        call.check_gradients(first)
        assert all(torch.equal(*pair) for each in others for pair in zip(first, each, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", kernel_calls.DTYPES, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 3, 509, MANY])
def test_any_shape(entry, operator, dtype, rows):
    check(entry, operator, rows, (8, 128, 136, 3072, 4095, 4096, 4100, 8192, 16384, 32768), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", kernel_calls.DTYPES, ids=str)
@pytest.mark.parametrize("more", [-1, 0, 1, 77])
def test_rows_requested_far_ahead(entry, operator, dtype, more):
    rows = FAR_AHEAD * torch.cuda.get_device_properties("cuda").multi_processor_count + more
    check(entry, operator, rows, (1028, 2048, 2056, 4088, 4096), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [3, MANY])
def test_tensors_that_are_not_aligned(entry, operator, rows):
    check(entry, operator, rows, (4096,), offset=1)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", [SOLUTION, "{}_triton_row_v1"])
@pytest.mark.parametrize("rows", [3, 1000, MANY])
def test_streams_and_graphs_share_nothing_while_others_take_memory(operator, kernel, rows):
    entry = kernel_calls.load_cuda(kernel.format(operator))
    streams = [torch.cuda.Stream() for _ in range(4)]
    calls = [make_call(operator, rows, 4096) for _ in streams]
    expected = [each.call(entry) for each in calls]
    found = [[each.make_outputs() for each in calls] for _ in range(20)]
    graph, of_graph = torch.cuda.CUDAGraph(), calls[0].make_outputs()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=streams[0]):
        for _ in range(2):
            entry(*calls[0].inputs.values(), *of_graph)
    torch.cuda.synchronize()
    for outputs in found:
        for stream, call, of_stream in zip(streams, calls, outputs, strict=True):
            with torch.cuda.stream(stream):
                entry(*call.inputs.values(), *of_stream)
        with torch.cuda.stream(streams[-1]):
            taken = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(8)]
            graph.replay()
            del taken
    torch.cuda.synchronize()
    assert all(map(torch.equal, of_graph, expected[0]))
    for outputs in found:
        for of_stream, right in zip(outputs, expected, strict=True):
            assert all(map(torch.equal, of_stream, right))


@pytest.mark.gpu
def test_what_does_not_fit_is_named_by_cuda(entry, operator):
    call = make_call(operator, 4, 256)
    for part, change, said in kernel_calls.MISFITS:
        with pytest.raises((ValueError, TypeError), match=said):
            call.run(entry, **{part: change(call.inputs[part])})


IN_REGISTERS, IN_SHARED_MEMORY = "differentiate_rows<RowsInRegisters", "differentiate_rows<RowsInSharedMemory"
ENOUGH = FAR_AHEAD * 132


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.parametrize(
    ("operator", "arch", "batches", "of_many"),
    [
        ("rmsnorm_backward", "sm_90", (8, 16384), [IN_REGISTERS]),
        ("fused_add_rmsnorm_backward", "sm_90", (8, 4096), [IN_REGISTERS]),
        ("layernorm_backward", "sm_90", (8, ENOUGH - 1, ENOUGH), [IN_REGISTERS, IN_SHARED_MEMORY]),
        ("layernorm_backward", "sm_89", (8, 16384), [IN_REGISTERS]),  # an L40S has too little shared memory
    ],
)
def test_few_rows_take_one_launch_and_many_two_which_request_far_ahead_where_that_pays(
    fib, operator, arch, batches, of_many
):
    sizes = ",".join(map(str, batches))
    name = SOLUTION.format(operator)
    record = fib("explain", name, "--root", REPOSITORY, "--arch", arch, "--batch-sizes", sizes, "--json").answer
    launched = [(launch["axes"]["batch"], launch["kernel"]) for launch in record["launches"]]
    expected = [(batches[0], "differentiate_split")]
    for batch, kernel in zip(batches[1:], of_many, strict=True):
        expected += [(batch, kernel), (batch, "add_partials")]
    assert [batch for batch, _ in launched] == [batch for batch, _ in expected]
    assert all(kernel.startswith(start) for (_, kernel), (_, start) in zip(launched, expected, strict=True)), launched
    kernels = [record["kernels"][launch["kernel_number"]] for launch in record["launches"]]
    assert {kernel["spill_bytes"] for kernel in kernels} == {0}


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
def test_it_compiles_for_older_gpus(tmp_path):
    assert build_native(
        kernel_calls.shipped_solutions()[SOLUTION.format(kernel_calls.OPERATORS[0])], tmp_path, "8.0"
    ).exists()


def needs_cxx(test):
    """The test waits for a C++ compiler."""
    return pytest.mark.compile(pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")(test))


SHAPES = [(0, 128), (1, 7), (5, 129), (9, 64), (70, 1000)]  # of the last, blocks go to several threads
LARGE_SHAPES = [
    (3, 33000),  # row by row
    (521, 4096),  # past the caches
]
"""Of float32."""


def check_gradients(operator, baseline):
    torch.manual_seed(0)
    run = kernel_calls.load_cpp(f"{operator}_cpp_simd_v1", baseline=baseline)
    for dtype in kernel_calls.DTYPES:
        for shape in [*SHAPES, *LARGE_SHAPES] if dtype == torch.float32 else SHAPES:
            for weight_dtype in {dtype, torch.float32}:
                for offset in (0,) if shape in LARGE_SHAPES else (0, 1):
                    call, found = make_call(operator, *shape, dtype, weight_dtype, offset=offset, device="cpu"), []
                    for threads in (2, 1):
                        torch.set_num_threads(threads)
                        found.append(call.call(run))
                    call.check_gradients(found[0])
                    assert all(map(torch.equal, *found)), (shape, dtype, "on one thread")


# That of RMSNorm is a part of the others, and what LayerNorm's adds is made of the same vectors.
@needs_cxx
@pytest.mark.parametrize(
    "operator", ["fused_add_rmsnorm_backward", pytest.param("layernorm_backward", marks=pytest.mark.fuzz)]
)
@pytest.mark.timeout(900)  # a build of all sets takes half a minute of a core that is free
def test_gradients_are_right_at_every_instruction_set(operator):
    kernel_calls.assert_right_at_every_set("test_backward_kernels", f"check_gradients({operator!r}, baseline=True)")


@needs_cxx
@pytest.mark.parametrize("operator", ["rmsnorm_backward", "layernorm_backward"])
def test_gradients_are_right_on_this_processor(operator):
    check_gradients(operator, baseline=False)


@needs_cxx
@pytest.mark.parametrize(
    ("part", "wrong", "said"),
    [*kernel_calls.MISFITS, ("weight", torch.Tensor.bfloat16, "weight: expected dtype float16 as x, got bfloat16")],
)
def test_what_does_not_fit_is_named_by_cpp(part, wrong, said):
    run = kernel_calls.load_cpp("rmsnorm_backward_cpp_simd_v1", baseline=False)
    call = make_call("rmsnorm_backward", 4, 256, device="cpu")
    with pytest.raises((ValueError, TypeError), match=said):
        call.run(run, **{part: wrong(call.inputs[part])})
