"""Serve kernels' verdicts to agents by the Model Context Protocol, and as rewards to trainers."""
