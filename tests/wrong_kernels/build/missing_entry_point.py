def forward(x, weight, eps):
    return x
