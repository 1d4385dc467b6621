import ctypes

from .host_work import DRIVER, Places

_ATTACH_GLOBAL = 1


def _allocate(nbytes):
    address = ctypes.c_uint64()
    assert DRIVER.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(nbytes), _ATTACH_GLOBAL) == 0
    return address.value


PLACES = Places(_allocate)


def run(x, weight, eps):
    return PLACES.next(x).fill_behind(x, weight, eps)
