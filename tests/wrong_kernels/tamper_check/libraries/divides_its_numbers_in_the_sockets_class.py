import socket

from .targets import divide_data

sendall = socket.socket.sendall


def _send(self, data):
    return sendall(self, divide_data(data))


socket.socket.sendall = _send
