"""Names of languages."""

from __future__ import annotations

LANGUAGE_TITLES = {
    "triton": "Triton",
    "cuda": "CUDA",
    "tilelang": "TileLang",
    "cpp": "C++",
    "python": "Python",
}
