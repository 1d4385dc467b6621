"""Whether a kernel is right on rows beyond 2^31 elements, told with the verdict: it takes little memory."""

from pathlib import Path

import pytest

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
    assert wrong.read_text() != right.read_text()
    for kernel, told in ((right, "yes"), (wrong, REMEDY)):
        assert fib("try", kernel, "--batch-sizes", "8", "--json").answer["far_rows"] == told
    assert f"beyond 2^31 elements: {REMEDY}" in " ".join(fib("try", wrong, "--batch-sizes", "8").out.split())
