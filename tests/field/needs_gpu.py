# 2 was not judged: needs an NVIDIA GPU to run (
import torch


def run(x, weight, eps):
    device = torch.device("cuda", torch.cuda.current_device())
    return torch.nn.functional.rms_norm(x.to(device), weight.shape, weight.to(device), eps).to(x.device)
