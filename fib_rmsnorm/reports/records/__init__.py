"""The contents of a registry, as lists and one record in full."""
