"""Traces -> findings: results, limits, scaling, winners and differences.

Nothing here imports torch, and the schema is imported only for what a Trace leaves out: a report must start faster than
it is made.
"""
