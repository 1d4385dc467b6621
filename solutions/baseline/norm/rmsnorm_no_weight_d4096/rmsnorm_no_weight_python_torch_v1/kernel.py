from torch.nn.functional import rms_norm


def run(x, eps):
    return rms_norm(x, x.shape[-1:], None, eps)
