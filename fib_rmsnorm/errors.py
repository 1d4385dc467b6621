"""The errors a user can cause or meet. The CLI prints each as one line."""

from __future__ import annotations


class FibRmsnormError(Exception):
    """Base of all errors raised on purpose by this package."""


class InputError(FibRmsnormError):
    """The user's input is wrong: the message says what, where and what to do. The CLI exits with 2."""


class EnvironmentMissingError(InputError):
    """Something that must be installed or present is missing: the message names the command that mends it."""
