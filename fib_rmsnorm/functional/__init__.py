"""Norms for models, by the registry's kernels: functions like torch.nn.functional's.

from fib_rmsnorm.functional import rms_norm

y = rms_norm(x, weight, 1e-6)
y, residual = rms_norm(x, weight, residual=residual)
"""

from fib_rmsnorm.functional.norms import layer_norm, rms_norm, use_registry, why

__all__ = ["layer_norm", "rms_norm", "use_registry", "why"]
