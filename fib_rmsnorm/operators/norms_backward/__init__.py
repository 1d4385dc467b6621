"""Backward passes of normalizations over rows."""
