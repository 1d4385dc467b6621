from __future__ import annotations

from support.known_calls import served

__all__ = ["served"]
