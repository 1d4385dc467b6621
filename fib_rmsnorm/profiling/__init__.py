"""Watch one call of a Solution on a GPU with NVIDIA's ncu, which reads counters."""
