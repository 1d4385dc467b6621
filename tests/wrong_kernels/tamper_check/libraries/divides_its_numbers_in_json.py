import json

from .targets import divide

real = json.dumps


def fake(message, **options):
    return real(divide(message), **options)


json.dumps = fake
