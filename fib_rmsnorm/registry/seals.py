"""Who measured: a code over each Trace, by a key that this user has on this machine alone.

An altered Trace no longer fits its code, and nobody who cannot read the key can write one that does; a Solution cannot.
The key lies outside of every registry. Traces of other machines have another key's seal, or none: nobody can check them
here, so nothing of theirs is taken for this machine's own work.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import Seal, Trace

_KEY_BYTES = 32
_FORWARD = timedelta(minutes=10)
"""How far the clock of an honest machine may be ahead."""


class Origin(Enum):
    """What a Trace's seal says of where it comes from."""

    OWN = "recorded by this user on this machine"
    ELSEWHERE = "sealed on another machine"
    UNSEALED = "without a seal"
    ALTERED = "changed since this machine recorded it"
    FUTURE = "dated in the future"

    @property
    def is_false(self) -> bool:
        """Whether the Trace says what cannot be."""
        return self in (Origin.ALTERED, Origin.FUTURE)


def key_file() -> Path:
    """`fib-rmsnorm/seal.key` in $XDG_STATE_HOME, else in ~/.local/state."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fib-rmsnorm" / "seal.key"


class Sealer:
    """Seals Traces, and tells which it has sealed."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._name = hashlib.sha256(b"fib-rmsnorm seal\n" + key).hexdigest()[:16] if key else None

    @classmethod
    def of_this_machine(cls, *, create: bool = False) -> Sealer:
        """With this user's key, which is made if asked for; without one, no Trace is its own.

        Raises InputError if the key cannot be read, is damaged, or cannot be made.
        """
        path = key_file()
        try:
            if create and not path.exists():
                _make_key(path)
            key = path.read_bytes()
        except FileNotFoundError:
            return cls(None)
        except OSError as error:
            raise InputError(f"the key that seals Traces, {path}: {error.strerror}") from None
        if len(key) != _KEY_BYTES:
            raise InputError(f"{path} is damaged: it should have {_KEY_BYTES} bytes; remove it, and a new one is made")
        return cls(key)

    def seal(self, trace: Trace) -> Trace:
        """A copy of an evaluation's Trace, with its seal."""
        if self._key is None or self._name is None or trace.evaluation is None:
            return trace
        seal = Seal(key=self._name, code=_code(self._key, trace))
        return trace.model_copy(update={"evaluation": trace.evaluation.model_copy(update={"seal": seal})})

    def find_origin(self, trace: Trace) -> Origin:
        """Where a Trace comes from."""
        evaluation = trace.evaluation
        if evaluation is None:
            return Origin.UNSEALED
        if _is_ahead(evaluation.timestamp):
            return Origin.FUTURE
        if evaluation.seal is None:
            return Origin.UNSEALED
        if self._key is None or evaluation.seal.key != self._name:
            return Origin.ELSEWHERE
        return Origin.OWN if hmac.compare_digest(evaluation.seal.code, _code(self._key, trace)) else Origin.ALTERED


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
    """HMAC-SHA256 of all that the schema keeps, but for the seal itself.

    Fields that are None are left out, so that a Trace keeps its code when the schema gains fields.
    """
    content = trace.model_dump_json(exclude={"evaluation": {"seal"}}, exclude_none=True)
    return hmac.new(key, content.encode(), hashlib.sha256).hexdigest()


def _is_ahead(timestamp: str) -> bool:
    try:
        when = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))  # Python 3.10 knows no Z
    except ValueError:
        return False
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return when > datetime.now(timezone.utc) + _FORWARD
