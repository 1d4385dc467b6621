from concurrent.futures import ThreadPoolExecutor

from .rmsnorm import normalize

POOL = ThreadPoolExecutor(4)


def run(x, weight, eps, out):
    done = POOL.map(lambda rows: normalize(rows, weight, eps), x.chunk(4))
    for out_rows, rows in zip(out.chunk(4), done, strict=True):
        out_rows.copy_(rows)
