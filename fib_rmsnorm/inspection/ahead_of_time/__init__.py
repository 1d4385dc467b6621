"""Compile a Solution for a GPU that need not be there, and note what it would launch."""
