"""Evaluations as they come, and the verdict at their end."""
