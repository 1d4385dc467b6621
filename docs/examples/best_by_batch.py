"""Which kernel is the fastest on each Workload? Read the Traces of a registry and see.

    python docs/examples/best_by_batch.py [TRACES...]

With pandas the same is `pandas.DataFrame(record.as_row() for record in load())`, and a groupby.
"""

import sys

from fib_rmsnorm import load

best = {}
for record in load(*sys.argv[1:]):
    if not record.is_native:
        continue  # wrong, or interpreted
    key = (record.hardware, record.timer, record.definition, *record.axes.items())
    if key not in best or record.latency_ms < best[key].latency_ms:
        best[key] = record

for (hardware, timer, definition, *axes), record in best.items():
    size = ", ".join(f"{name}={value}" for name, value in axes)
    print(f"{hardware} ({timer})  {definition}  {size:<12}  {record.solution:<32}  {1e3 * record.latency_ms:.2f} us")
