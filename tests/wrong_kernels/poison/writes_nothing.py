def run(x, weight, eps, out):
    pass
