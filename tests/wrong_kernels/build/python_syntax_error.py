def run(x, weight, eps)
    return x
