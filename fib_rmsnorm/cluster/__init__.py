"""Run a bench on the nodes of a Ray cluster: an actor for each device runs the scheduler of `evaluation` there.

Ray is the engine: it starts processes on other machines, carries objects to them, and tells which have died. All files
run in the driver, the process that the user started, but for `device_actor`. The driver alone plans and records.
"""
