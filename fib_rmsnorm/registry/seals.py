"""Seals show who measured: a code over each Trace, by a key that this user has on this machine alone.

An altered Trace no longer fits its code, and nobody who cannot read the key can write one that does; a Solution cannot.
The key lies outside of every registry. Traces of other machines have another key's seal, or none: nobody can check them
here, so nothing of theirs is taken for this machine's own work.
"""

import hashlib
import hmac
import os
import secrets
import tempfile
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import Seal, Trace

_KEY_BYTES = 32
_FORWARD = timedelta(minutes=10)
"""How far the clock of an honest machine may be ahead."""


class TraceOrigin(Enum):
    """The origin of a Trace by its seal."""

    OWN = "recorded by this user on this machine"
    ELSEWHERE = "sealed on another machine"
    UNSEALED = "without a seal"
    ALTERED = "changed since it was recorded"
    FUTURE = "dated in the future"
    UNDATED = "without a date that can be read"

    @property
    def is_false(self) -> bool:
        """Whether the Trace should not be believed."""
        return self in (TraceOrigin.ALTERED, TraceOrigin.FUTURE, TraceOrigin.UNDATED)


def key_file() -> Path:
    """`fib-rmsnorm/seal.key` in $XDG_STATE_HOME, else in ~/.local/state."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fib-rmsnorm" / "seal.key"


class Sealer:
    """Seals Traces, and tells which it has sealed."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._name = hashlib.sha256(b"fib-rmsnorm seal\n" + key).hexdigest()[:16] if key else None

    @classmethod
    def of_this_machine(cls, *, create: bool = False) -> "Sealer":
        """With this user's key, which is made if asked for; without one, no Trace is its own.

        Raises InputError if the key's file cannot be read or made, or is damaged.
        """
        path = key_file()
        try:
            if create and not path.exists():
                _make_key(path)
            key = path.read_bytes()
        except OSError as error:
            if not create and isinstance(error, (FileNotFoundError, NotADirectoryError)):
                return cls(None)
            fault = f"the key that seals Traces, {path}: {error.strerror}"
            raise InputError(f"{fault}; name a folder that you may write to in $XDG_STATE_HOME") from None
        if len(key) != _KEY_BYTES:
            raise InputError(f"{path} is damaged: it should have {_KEY_BYTES} bytes; remove it, and a new one is made")
        return cls(key)

    def seal(self, trace: Trace) -> Trace:
        """A copy of an evaluation's Trace, with its seal."""
        if self._key is None or self._name is None or trace.evaluation is None:
            return trace
        seal = Seal(key=self._name, code=_code(self._key, trace))
        return trace.model_copy(update={"evaluation": trace.evaluation.model_copy(update={"seal": seal})})

    def find_origin(self, trace: Trace) -> TraceOrigin:
        """The origin of a Trace."""
        evaluation = trace.evaluation
        if evaluation is None:
            return TraceOrigin.UNSEALED
        if (misdated := find_false_date(evaluation.timestamp)) is not None:
            return misdated
        seal = evaluation.seal
        if seal is None:
            return TraceOrigin.UNSEALED
        if self._key is None or seal.key != self._name:
            return TraceOrigin.ELSEWHERE
        is_intact = hmac.compare_digest(seal.code.encode(), _code(self._key, trace).encode())
        return TraceOrigin.OWN if is_intact else TraceOrigin.ALTERED


def _make_key(path: Path) -> None:
    """Whole or not at all, also if several processes make it at once."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # which only its owner can read
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)
    except FileExistsError:
        pass  # another process was first
    finally:
        Path(name).unlink()


def _code(key: bytes, trace: Trace) -> str:
    """The code over all that the schema keeps, but for the seal itself.

    Fields that are None are left out, so that a Trace keeps its seal when the schema gains fields.
    """
    content = trace.model_dump_json(exclude={"evaluation": {"seal"}}, exclude_none=True)
    return hmac.new(key, content.encode(), hashlib.sha256).hexdigest()


def find_false_date(timestamp: str) -> TraceOrigin | None:
    """The fault of a Trace's date; None if there is none.

    The newest Trace of a Solution counts, and timestamps are compared as texts. One in another form, such as
    `20260101T000000Z` or `9999-99-99`, would be newer than any measurement to come.
    """
    when = None  # the day alone, where Python cannot read the time: Python 3.10 reads no nanoseconds
    for text in (timestamp[:10], timestamp.replace("Z", "+00:00")):
        with suppress(ValueError):
            when = datetime.fromisoformat(text)
    if when is None or not timestamp.startswith(when.date().isoformat()):
        return TraceOrigin.UNDATED
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return TraceOrigin.FUTURE if when > datetime.now(timezone.utc) + _FORWARD else None
