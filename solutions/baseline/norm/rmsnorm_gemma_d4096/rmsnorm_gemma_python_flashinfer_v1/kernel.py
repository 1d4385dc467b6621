from flashinfer.norm import gemma_rmsnorm


def run(x, weight, eps, out):
    gemma_rmsnorm(x, weight, eps, out=out)
