"""Exercises that a student works through with the tool: starters, and grades that the judge gives."""
