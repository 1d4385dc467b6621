"""A process that compiles a solution and runs none of it, while the fork server still imports torch for the worker."""

from __future__ import annotations

import sys
from time import perf_counter

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.building.native import build_native
from fib_rmsnorm.evaluation.worker.worker_messages import Build, Built
from fib_rmsnorm.sandbox.channel import Channel, Message, RefusalError, serve


def build(message: Message) -> Built:
    """Compile the solution into its cache, where the worker finds it, and say how long that took."""
    request = Build.model_validate(message)
    started = perf_counter()
    try:
        build_native(request.solution, request.cache)
    except BuildError as error:
        raise RefusalError("COMPILE_ERROR", str(error)) from None
    return Built(build_s=perf_counter() - started)


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    sys.modules["torch"] = None  # type: ignore[assignment] # tvm_ffi imports it where it can, which takes as long
    serve(channel, {"build": build})
