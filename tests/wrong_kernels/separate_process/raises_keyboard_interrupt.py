def run(x, weight, eps):
    raise KeyboardInterrupt
