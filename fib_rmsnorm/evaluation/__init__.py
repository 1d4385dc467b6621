"""Evaluate a Solution of a Definition on a Workload, and make a Trace. These files run in the scheduler's process.

Each of the other processes has its own package: `worker` runs untrusted code, `judging` knows the right answers, and
`ceiling` measures what no kernel can beat.
"""

from __future__ import annotations

from fib_rmsnorm.sandbox.role import Role

WORKER = Role("fib_rmsnorm.evaluation.worker.worker_process", runs_untrusted_code=True)
EARLY_BUILDER = Role("fib_rmsnorm.evaluation.worker.build_process", runs_untrusted_code=True, needs_no_imports=True)
JUDGE = Role("fib_rmsnorm.evaluation.judging.judge", runs_untrusted_code=False)
CEILING = Role("fib_rmsnorm.evaluation.ceiling.ceiling_process", runs_untrusted_code=False)
ROLES = (CEILING, EARLY_BUILDER, JUDGE, WORKER)
"""The roles of all processes that an evaluation needs."""
