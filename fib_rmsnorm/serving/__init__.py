"""Serve kernels' verdicts by the Model Context Protocol, on stdio or on loopback."""
