"""Kernels whose compiled code is known: one with wide accesses, one with narrow ones, one with a loop."""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

ARCHS = ("gfx90a", "gfx942", "gfx950")
WARPS = 4


@triton.jit
def normalize(x_ptr, out_ptr, COLS: tl.constexpr):
    """Holds a row in registers."""
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + cols).to(tl.float32)
    tl.store(out_ptr + cols, (x * tl.rsqrt(tl.sum(x * x) / COLS)).to(tl.float16))


@triton.jit
def every_second(x_ptr, out_ptr, COLS: tl.constexpr):
    cols = 2 * tl.arange(0, COLS)
    tl.store(out_ptr + cols, tl.load(x_ptr + cols))


@triton.jit
def add_up(x_ptr, out_ptr, n, COLS: tl.constexpr):
    total = tl.zeros([COLS], tl.float32)
    for start in range(0, n, COLS):
        total += tl.load(x_ptr + start + tl.arange(0, COLS))
    tl.store(out_ptr + tl.arange(0, COLS), total)


def main(folder: Path) -> None:
    """Write the assembly of kernels for AMD's GPUs to files such as `normalize.2048.gfx942.amdgcn`."""
    sizes = {normalize: (2048, 8192, 16384, 65536, 1 << 18), every_second: (256,), add_up: (1024,)}
    for kernel, cols, arch in ((each, cols, arch) for each in sizes for cols in sizes[each] for arch in ARCHS):
        pointer = "*fp32" if kernel is add_up else "*fp16"
        kinds = {name: {"n": "i32", "COLS": "constexpr"}.get(name, pointer) for name in kernel.arg_names}
        divisible = {(place,): [["tt.divisibility", 16]] for place in range(len(kinds) - 1)}
        source = triton.compiler.ASTSource(kernel, kinds, {"COLS": cols}, divisible)
        done = triton.compile(source, target=GPUTarget("hip", arch, 64), options={"num_warps": WARPS})
        (folder / f"{kernel.__name__}.{cols}.{arch}.amdgcn").write_text(done.asm["amdgcn"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
