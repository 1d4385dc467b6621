"""The errors that a user can cause or meet. The CLI prints each as one line, and what there is to paste below."""

from collections.abc import Iterator
from contextlib import contextmanager


class FibRmsnormError(Exception):
    """Base class of all errors that this package raises on purpose."""


class InputError(FibRmsnormError):
    """The user's input is wrong: the message says what, where and what to do. The CLI exits with 2."""

    def __init__(self, message: str, paste: str = "") -> None:
        super().__init__(message)
        self.paste = paste
        """Options to choose from, printed below the message."""


class KernelError(InputError):
    """A kernel cannot be read, or does not compile: its author's fault, not the caller's. The CLI exits with 1."""


class UnsuitedError(InputError):
    """This device cannot run a kernel, which is neither right nor wrong then."""


@contextmanager
def blaming_kernel() -> Iterator[None]:
    """Raise KernelError for what is wrong with a kernel's files."""
    try:
        yield
    except InputError as error:
        raise KernelError(str(error), error.paste) from None


class EnvironmentMissingError(InputError):
    """A program, library or permission is missing: the message names the command that fixes it."""
