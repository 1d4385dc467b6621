from quack.rmsnorm import layernorm_fwd


def run(x, weight, eps):
    return layernorm_fwd(x, weight.float(), eps=eps)
