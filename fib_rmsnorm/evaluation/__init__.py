"""(Definition, Solution, Workload) -> Trace. The files here run in the scheduler's process.

What runs in others has a package of its own: `worker` beside untrusted code, `judging` where the right answers are,
`ceiling` where the limits are measured.
"""

from __future__ import annotations

from fib_rmsnorm.sandbox.role import Role

WORKER = Role("fib_rmsnorm.evaluation.worker.worker_process", runs_untrusted_code=True)
JUDGE = Role("fib_rmsnorm.evaluation.judging.judge", runs_untrusted_code=False)
CEILING = Role("fib_rmsnorm.evaluation.ceiling.ceiling_process", runs_untrusted_code=False)
ROLES = (CEILING, JUDGE, WORKER)
"""Of all the processes that an evaluation needs."""
