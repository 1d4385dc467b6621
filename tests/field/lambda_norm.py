# 0 PASSED as rmsnorm_d4096
import torch

rms_norm = lambda x, g, e=1e-6: torch.nn.functional.rms_norm(x, g.shape, g, e)  # noqa: E731
