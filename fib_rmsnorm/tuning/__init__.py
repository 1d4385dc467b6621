"""Tune launch parameters by shape: measure what a Solution declares, and write the table that it reads."""
