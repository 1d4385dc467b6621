"""The judge, a process that alone knows the right answers, and the client through which the scheduler asks it."""
