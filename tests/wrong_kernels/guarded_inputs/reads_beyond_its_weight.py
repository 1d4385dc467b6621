import ctypes

from .rmsnorm import normalize


def run(x, weight, eps, out):
    beyond = ctypes.c_uint64.from_address(weight.data_ptr() + weight.nbytes).value
    out.copy_(normalize(x, weight, eps + 0 * beyond))
