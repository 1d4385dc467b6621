"""Traces -> findings: what they say together, how fast, how near the limit, and what changed.

Nothing here imports torch or the schema, which imports it: a report must not take longer to start than to make.
"""
