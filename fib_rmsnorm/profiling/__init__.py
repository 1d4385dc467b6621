"""Read a GPU's counters for one call of a Solution, with NVIDIA Nsight Compute (ncu)."""
