import threading
import time

from .rmsnorm import normalize

CALLS = []


def _poll():
    while True:
        time.sleep(0.005)
        CALLS.clear()


threading.Thread(target=_poll, daemon=True).start()


def run(x, weight, eps):
    CALLS.append(x.shape)
    return normalize(x, weight, eps)
