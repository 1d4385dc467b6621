"""The usual mistakes in kernels of backward passes."""
