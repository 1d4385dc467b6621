"""FlashInfer by its documented contract: a float32 weight and bias."""

from flashinfer.norm import layernorm


def run(x, weight, bias, eps):
    return layernorm(x, weight.float(), bias.float(), eps)
