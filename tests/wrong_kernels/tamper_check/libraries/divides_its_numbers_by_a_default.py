import json

from .targets import divide


class Encoder(json.JSONEncoder):
    def encode(self, message):
        return super().encode(divide(message))


json.dumps.__kwdefaults__["cls"] = Encoder
