"""The registry's kernels in a user's process: which one serves a call, and its build.

A Solution that is built here runs in the caller's process, with all that it may do. So only the Solutions that ship
with this package are.
"""
