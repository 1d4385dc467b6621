"""Time all Solutions on a Workload in turn: isolated calls, and calls in a CUDA graph."""
