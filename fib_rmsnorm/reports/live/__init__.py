"""Evaluations as they arrive, and the verdict at the end."""
