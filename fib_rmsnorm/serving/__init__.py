"""Doors to the service that others already use: the Model Context Protocol, on stdio or on loopback."""
