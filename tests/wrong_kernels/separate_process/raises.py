def run(x, weight, eps):
    raise ValueError("no such luck")
