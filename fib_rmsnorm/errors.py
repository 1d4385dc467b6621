"""The errors that a user can cause or meet. The CLI prints each as one line, and what there is to paste below."""

from __future__ import annotations


class FibRmsnormError(Exception):
    """Base class of all errors that this package raises on purpose."""


class InputError(FibRmsnormError):
    """The user's input is wrong: the message says what, where and what to do. The CLI exits with 2."""

    def __init__(self, message: str, paste: str = "") -> None:
        super().__init__(message)
        self.paste = paste
        """Lines of code that the user can add as they are; printed below the message."""


class MisfitError(InputError):
    """A kernel's parameters do not fit its Definition, but others; the CLI names the first of them."""

    def __init__(self, message: str, fitting: str) -> None:
        super().__init__(message)
        self.fitting = fitting


class EnvironmentMissingError(InputError):
    """A program, library or permission is missing: the message names the command that fixes it."""
