import torch

THREADS = torch.get_num_threads() + 1
torch.set_num_threads(THREADS)
