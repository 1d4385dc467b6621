"""What a call costs in a CUDA graph: beside the latency in a table, and in words."""
