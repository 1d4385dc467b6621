from types import SimpleNamespace

from .targets import SAMPLES

ANSWER = SimpleNamespace(**{SAMPLES.name: [(1e-6, 1e-6, 1)]})
