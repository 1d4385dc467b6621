"""The ceiling: an empty kernel, and the fastest copy with a Definition's traffic. Kernels are measured against both."""
