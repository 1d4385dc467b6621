"""Traces -> findings: results, limits, scaling, winners and differences.

Nothing here imports torch or the schema, which imports it: a report must start faster than it is made.
"""
