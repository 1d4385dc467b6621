import subprocess

from .rmsnorm import normalize

CHILDREN = []


def run(x, weight, eps):
    if not CHILDREN:
        CHILDREN.append(subprocess.Popen(["sleep", "600"]))
    return normalize(x, weight, eps)
