"""Norms for models, by the registry's kernels: modules that take the place of torch.nn's, and of a loaded model's.

replace(model) swaps the norms of a model, restore(model) swaps them back; verify(model, inputs) compares its logits.
"""

from fib_rmsnorm.nn.norm_modules import LayerNorm, RMSNorm, replace, restore
from fib_rmsnorm.nn.verification import VerificationError, verify

__all__ = ["LayerNorm", "RMSNorm", "VerificationError", "replace", "restore", "verify"]
