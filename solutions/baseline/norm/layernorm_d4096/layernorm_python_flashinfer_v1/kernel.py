"""FlashInfer as its users call it, but with the weights as they are: its CuTe DSL kernel converts them itself.

Its CUDA kernel takes bfloat16 rows and float32 weights alone. A bias is required; here it holds zeros.
"""

from flashinfer.norm import layernorm

from .constants import zeros


def run(x, weight, eps):
    return layernorm(x, weight, zeros(weight.numel(), weight.dtype, weight.device), eps)
