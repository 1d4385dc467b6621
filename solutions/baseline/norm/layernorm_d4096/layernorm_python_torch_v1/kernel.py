from torch.nn.functional import layer_norm


def run(x, weight, eps):
    return layer_norm(x, weight.shape, weight, None, eps)
