# 0 Called as forward(dict(weight=weight, x=x, eps=eps))
import torch


def forward(inputs):
    weight = inputs["weight"]
    return torch.nn.functional.rms_norm(inputs["x"], weight.shape, weight, inputs["eps"])
