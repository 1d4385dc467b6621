"""Compiled code to facts, without a GPU: registers, memory accesses, launches, occupancy."""

from fib_rmsnorm.sandbox import Role

COMPILER = Role("fib_rmsnorm.inspection.compile_process", runs_untrusted_code=True)
"""Compiles and inspects Solutions, a process for each: some compilers run code that they compile."""
