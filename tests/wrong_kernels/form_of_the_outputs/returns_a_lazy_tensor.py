from .lazy_tensor import LazyTensor


def run(x, weight, eps):
    return LazyTensor((x, weight, eps))
