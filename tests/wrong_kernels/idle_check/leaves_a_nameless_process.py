import ctypes
import os

if os.fork() == 0:
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    ctypes.CDLL(None).execve(b"/usr/bin/yes", (ctypes.c_char_p * 2)(b"", None), (ctypes.c_char_p * 1)(None))
