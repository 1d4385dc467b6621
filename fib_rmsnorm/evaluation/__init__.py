"""Evaluate a Solution of a Definition on a Workload, and make a Trace. These files run in the scheduler's process.

Each of the other processes has its own package: `worker` runs untrusted code, `judging` knows the right answers, and
`ceiling` measures what no kernel can beat.
"""

from fib_rmsnorm.sandbox import Role

WORKER = Role("fib_rmsnorm.evaluation.worker.worker_process", runs_untrusted_code=True)
JUDGE = Role("fib_rmsnorm.evaluation.judging.judge", runs_untrusted_code=False)
CEILING = Role("fib_rmsnorm.evaluation.ceiling.ceiling_process", runs_untrusted_code=False)
ROLES = (CEILING, JUDGE, WORKER)
"""The roles of all processes that an evaluation needs."""
