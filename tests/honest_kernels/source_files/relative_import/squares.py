def mean_square(x):
    return x.float().pow(2).mean(dim=-1, keepdim=True)
