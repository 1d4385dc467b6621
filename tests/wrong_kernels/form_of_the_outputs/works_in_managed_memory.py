import ctypes

from .host_work import DRIVER, fill_behind

_ATTACH_GLOBAL = 1


def run(x, weight, eps):
    address = ctypes.c_uint64()
    assert DRIVER.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(x.nbytes), _ATTACH_GLOBAL) == 0
    return fill_behind(address.value, x, weight, eps)
