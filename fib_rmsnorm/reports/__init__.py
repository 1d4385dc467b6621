"""Traces and Definitions -> text and tables."""
