"""This machine's devices, GPU models, clocks, tools and libraries, and what each language can do here."""
