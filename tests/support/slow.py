"""What tells modules, which pytest's options do not reach, that the slow tests run too."""

ALSO_SLOW = "FIB_RMSNORM_TESTS_SLOW"
