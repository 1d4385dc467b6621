"""Processes for untrusted code: how they are started, asked, confined, watched and ended. Knows nothing of kernels."""
