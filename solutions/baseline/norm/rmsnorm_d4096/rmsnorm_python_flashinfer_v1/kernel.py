"""FlashInfer as its users call it. It launches for programmatic dependent launch by default, where the GPU has that."""

from flashinfer.norm import rmsnorm


def run(x, weight, eps, out):
    rmsnorm(x, weight, eps, out=out)
