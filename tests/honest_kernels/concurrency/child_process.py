import subprocess
import sys

ANSWER = subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True, text=True, check=True).stdout
