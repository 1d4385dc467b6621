# 0 Called as rms_norm(x.unsqueeze(0), weight, eps).squeeze(0)
import torch


def rms_norm(x, weight, eps=1e-6):
    batch, seq_len, hidden = x.shape
    rows = x.reshape(batch * seq_len, hidden)
    return torch.nn.functional.rms_norm(rows, (hidden,), weight, eps).view(batch, seq_len, hidden)
