"""Processes for untrusted code: start them, ask them, confine them, check that they are idle, and end them.

Nothing here knows about kernels.
"""
