import torch

torch._C._len_torch_dispatch_stack = lambda: 0
