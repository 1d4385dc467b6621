from torch.nn.functional import rms_norm


def run(x, weight, eps):
    return rms_norm(x, weight.shape, weight, eps)
