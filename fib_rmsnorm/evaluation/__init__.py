"""(Definition, Solution, Workload) -> Trace: build, judge, time, record."""
