"""A GPU's counters while a Solution runs once, read by NVIDIA Nsight Compute (ncu)."""
