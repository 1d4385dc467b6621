"""Watch one call of a Solution on a GPU with NVIDIA's tools: counters by ncu, faults by compute-sanitizer."""
