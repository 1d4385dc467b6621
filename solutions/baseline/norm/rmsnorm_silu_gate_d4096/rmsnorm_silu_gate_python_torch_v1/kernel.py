"""Separate kernels, in float32 between them: the norm rounded to 16 bits before the gate is off by a unit too often."""

from torch.nn.functional import rms_norm, silu


def run(x, gate, weight, eps):
    normed = rms_norm(x.float(), weight.shape, weight.float(), eps)
    return (normed * silu(gate.float())).to(x.dtype)
