"""The judge, the only process that knows the right answers; and the client through which the scheduler asks it."""
