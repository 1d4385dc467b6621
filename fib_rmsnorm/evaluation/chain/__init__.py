"""A call in a CUDA graph, between a kernel that has just written its input and one that reads its output."""
