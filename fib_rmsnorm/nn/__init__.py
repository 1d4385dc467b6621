"""Norms for models, by the registry's kernels: modules that take the place of torch.nn's."""

from fib_rmsnorm.nn.norm_modules import LayerNorm, RMSNorm

__all__ = ["LayerNorm", "RMSNorm"]
