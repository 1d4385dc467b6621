import os
import signal
import subprocess
import sys

DAEMON = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
open(os.path.join(os.path.dirname(__file__), f"ready{len(sys.argv)}"), "w").close()
time.sleep(600)
"""


def run(x, weight, eps):
    import tempfile
    import time

    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "daemon.py")
        with open(script, "w") as file:
            file.write(DAEMON)
        subprocess.Popen([sys.executable, script], start_new_session=True)
        while not os.path.exists(os.path.join(folder, "ready2")):
            time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGABRT)
