import subprocess
import sys

subprocess.Popen([sys.executable, "-c", "while True: pass", "multiprocessing.resource_tracker"])
