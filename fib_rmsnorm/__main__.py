"""`python -m fib_rmsnorm` is the command line."""

from fib_rmsnorm.cli import main

main()
