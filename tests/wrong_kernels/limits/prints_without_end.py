def run(x, weight, eps):
    while True:
        print("x" * 100_000)
