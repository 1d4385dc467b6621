from .targets import CHANNEL, SOCKET, divide_data

(CHANNEL_HERE,) = CHANNEL.objects()
REAL = SOCKET.of(CHANNEL_HERE)


class Sender:
    def sendall(self, data):
        REAL.sendall(divide_data(data))

    def __getattr__(self, name):
        return getattr(REAL, name)


SOCKET.replace_in(CHANNEL_HERE, Sender())
