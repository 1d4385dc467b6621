from __future__ import annotations

from support.served_calls import served

__all__ = ["served"]
