"""A Solution that says it takes rows at any strides is judged on views of larger tensors too."""

from pathlib import Path

import pytest

from support.registries import RIGHT, python_manifest

MANIFEST = python_manifest("kernel") + "strided = true\n"
READ = "x.float()"


@pytest.fixture
def try_strided(fib, registry):
    """Try a kernel whose solution.toml says that it is strided."""

    def run(text, *options, manifest=MANIFEST):
        Path("kernel").mkdir(exist_ok=True)
        Path("kernel", "kernel.py").write_text(text)
        Path("kernel", "solution.toml").write_text(manifest)
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
    wrong = RIGHT.replace(READ, changed)
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
    assert "strided: rmsnorm_d128 has no rows in an input that the call leaves as it is" in outcome.err


def test_an_option_says_it_of_a_single_file(fib, registry):
    options = ("--batch-sizes", "4", "--check", "--device", "cpu", "--strided")
    Path("norm.py").write_text(RIGHT)
    assert "strided rows included" in fib("try", "norm.py", *options).lines[-1]
    Path("norm.py").write_text(RIGHT.replace(READ, "x.as_strided(x.shape, (x.shape[1], 1)).float()"))
    outcome = fib("try", "norm.py", *options)
    assert outcome.code == 1 and "the rows of x are read as if contiguous: use x.stride(0)" in outcome.out


def test_pointers_have_no_strides(fib, registry):
    Path("norm.cpp").write_text("void norm(const _Float16* x, const _Float16* weight, float eps, _Float16* out) {}\n")
    outcome = fib("try", "norm.cpp", "--check", "--device", "cpu", "--strided")
    assert "strided: norm takes pointers, which have no strides: give it a TensorView" in outcome.refusal
