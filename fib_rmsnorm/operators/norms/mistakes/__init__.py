"""The usual mistakes in kernels of norms, which verdicts name."""
