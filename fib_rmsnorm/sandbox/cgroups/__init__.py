"""A cgroup for each confined process: what ends it ends all that it has started, at once, wherever that hides.

Other ways find a process's descendants one after the other, by what they cannot remove. What forks faster than it is
found outlives that. `cgroup.kill` (Linux 5.14) leaves nothing: no process can fork on while it is killed, and Landlock
keeps a confined process from leaving its cgroup.

Only cgroup v2, and only where this user may make cgroups beneath the scheduler's own. Nothing is written to a cgroup
that is not of this run, but for making the run's folder there; no process is moved that the run has not started.
"""
