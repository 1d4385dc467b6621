"""What all launches share: the tensors of a call, as the kernel takes them, and the device that they lie on.

Written for the host's time, which is that of a call with few rows.
"""

from functools import reduce
from operator import attrgetter, itemgetter, or_

import torch

get_dtype = attrgetter("dtype")


def make_arrange(kernel_tensors, tensors):
    """Arranges a call's tensors, which None follows, as the kernel takes them: None for those it does not have."""
    return itemgetter(*(tensors.index(name) if name in tensors else len(tensors) for name in kernel_tensors))


def are_aligned(addresses):
    """Whether vectors of 16 bytes can be loaded from all of them."""
    return reduce(or_, addresses) % 16 == 0


def launch_on_device_of(x, launch, launch_prepared, *arguments):
    """Triton launches on the current device; entering x's always would cost host time."""
    if not x.is_cuda:
        launch(*arguments)
    elif x.device.index == torch.cuda.current_device():
        launch_prepared(*arguments)
    else:
        with torch.cuda.device(x.device):
            launch_prepared(*arguments)
