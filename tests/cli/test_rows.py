"""Rows at other strides than usual, if a Solution says that it takes them, and rows beyond 2^31 elements."""

from pathlib import Path

import pytest

from support.paths import write
from support.registries import RIGHT, python_manifest

MANIFEST = python_manifest("kernel") + "strided = true\n"


@pytest.fixture
def try_strided(fib, registry):
    """Try a kernel whose solution.toml says that it is strided."""

    def run(text, *options, manifest=MANIFEST):
        write("kernel/kernel.py", text)
        write("kernel/solution.toml", manifest)
        return fib("try", "kernel", "--check", "--device", "cpu", *options)

    return run


def test_rows_at_any_stride_pass(try_strided):
    outcome = try_strided(RIGHT, "--batch-sizes", "4")
    assert outcome.code == 0
    assert "odd sizes and strided rows included); max difference 0" in outcome.lines[-1]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ("x.as_strided(x.shape, (x.shape[1], 1)).float()", "the rows of x are read as if contiguous: use x.stride(0)"),
        ("x[:, :1].float() * 0 + x.as_strided(x.shape, (x.stride(0), 1), 0).float()", "strided rows: out: "),
    ],
)
def test_other_rows_fail_and_a_row_after_the_other_is_named(try_strided, changed, says):
    wrong = RIGHT.replace("x.float()", changed)
    outcome = try_strided(wrong, "--batch-sizes", "4")
    assert outcome.code == 1 and says in outcome.out
    assert ("as if contiguous" in outcome.out) == ("as if contiguous" in says)
    assert try_strided(wrong, "--batch-sizes", "4", manifest=python_manifest("kernel")).code == 0


def test_names_the_input_of_several_that_is_read_as_if_contiguous(fib, try_strided):
    assert fib("define", "fused_add_rmsnorm", "--hidden", "128").code == 0
    definition = ("--definition", "fused_add_rmsnorm_d128", "--batch-sizes", "4")
    source = fib("show", "fused_add_rmsnorm_d128", "--json").json["reference"]
    assert try_strided(source, *definition).code == 0
    for misread in (["residual"], ["x", "residual"]):
        read = "".join(f"    {each} = {each}.as_strided({each}.shape, ({each}.shape[1], 1))\n" for each in misread)
        head, colon, body = source.partition("eps):\n")
        outcome = try_strided(head + colon + read + body, *definition)
        assert outcome.code == 1
        fix = ", ".join(f"{each}.stride(0)" for each in misread)
        assert f"the rows of {' and '.join(misread)} are read as if contiguous: use {fix}" in outcome.out


def test_a_call_that_leaves_no_rows_as_they_are_is_refused(try_strided):
    manifest = MANIFEST.replace("style = false", "style = true") + 'in_place = { out = "x" }\n'
    outcome = try_strided(RIGHT, manifest=manifest)
    assert outcome.code == 1
    assert "strided: every input of rmsnorm_d128 with rows is replaced by an output" in outcome.err


def test_an_option_says_it_of_a_single_file(fib, registry):
    Path("norm.py").write_text(RIGHT)
    tried = fib("try", "norm.py", "--batch-sizes", "4", "--check", "--device", "cpu", "--strided")
    assert "strided rows included" in tried.lines[-1]


def test_pointers_have_no_strides(fib, registry):
    Path("norm.cpp").write_text("void norm(const _Float16* x, const _Float16* weight, float eps, _Float16* out) {}\n")
    outcome = fib("try", "norm.cpp", "--check", "--device", "cpu", "--strided")
    assert "strided: norm takes pointers, which have no strides: give it a TensorView" in outcome.refusal


REMEDY = "an illegal memory access: compute the offsets of rows in 64 bits"
IN_32_BITS = {
    "cpp": ("int64_t", "int"),  # which compilers may compute in 64 bits: it must not overflow
    "triton": (".to(tl.int64)", ""),
    "cuda": ("+= blockIdx.x * hidden", "+= static_cast<int>(blockIdx.x) * static_cast<int>(hidden)"),
}


@pytest.mark.parametrize(
    "language",
    [pytest.param(each, marks=pytest.mark.compile if each == "cpp" else pytest.mark.gpu) for each in IN_32_BITS],
)
def test_offsets_in_32_bits_of_a_correct_kernel_are_found(fib, registry, language):
    suffix = {"triton": ".py", "cuda": ".cu", "cpp": ".cpp"}[language]
    right, wrong = Path(f"right{suffix}"), Path(f"wrong{suffix}")
    assert fib("new", language, right).code == 0
    wrong.write_text(right.read_text().replace(*IN_32_BITS[language]))
    for kernel, told in ((right, "yes"), (wrong, REMEDY)):
        assert fib("try", kernel, "--batch-sizes", "8", "--json").answer["far_rows"] == told
    checked = fib("try", right, "--check", "--device", "cpu", "--batch-sizes", "8").out.split()
    assert ("beyond 2^31 elements: not run with --check" in " ".join(checked)) == (language == "cpp")
    assert f"beyond 2^31 elements: {REMEDY}" in " ".join(fib("try", wrong, "--batch-sizes", "8").out.split())
