# 0 rms_norm() returns its outputs
from .kernels import rms_norm as rms_norm
