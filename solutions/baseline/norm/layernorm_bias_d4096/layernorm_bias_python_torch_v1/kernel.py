from torch.nn.functional import layer_norm


def run(x, weight, bias, eps):
    return layer_norm(x, weight.shape, weight, bias, eps)
