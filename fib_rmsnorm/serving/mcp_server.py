"""The tools and resources of the Model Context Protocol over a service. The only module that imports the SDK's server.

A tool's text is one line of JSON, the same as its structured result.
"""

# No postponed annotations: the SDK reads those of the tools.

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from fib_rmsnorm import __version__
from fib_rmsnorm.analysis.feedback import Feedback, make_feedback
from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.inspection.facts import Explanation
from fib_rmsnorm.reports.legend import LEGEND
from fib_rmsnorm.serving.requests import Kernel, NewKernel, Rankings, Requests, TimedComparison, Work
from fib_rmsnorm.sessions.job import Job

INSTRUCTIONS = """\
Write a kernel, have it judged with `check`, and timed with `measure` once it is right. `new` gives a kernel to start \
from. Send the text as `source` with its `language`, or the `path` of a file in the server's folder. A wrong kernel \
comes back with its mistake, a hint, the file and line, and the case that shows it. Rules: fib-rmsnorm://rules"""
RULES = """\
- A kernel is a file with one function: `run` in Python, or an exported function in C++ and CUDA. Its parameters are \
the Definition's inputs in their order; it returns the outputs, or takes them last and writes to them.
- It is judged on each Workload: on the Workload's own inputs, on hard ones (such as zero rows, huge and tiny values, \
NaN), and on inputs of an awkward size. All of them must be right within the tolerance of the dtype, which is shown.
- Inputs that nobody can foresee are judged too, among the timed calls, after timing.
- It must not change its inputs, write beyond its outputs, or change them after it has returned.
- It runs in a process of its own, without network, writes only to its own folders, and is killed at the time limit.
- To keep answers of earlier calls, or to work on after a call has returned, is a cheat and fails.
- speedup is the reference's latency over the kernel's; the interval decides: two intervals that overlap are a tie."""

Source = Annotated[str | None, Field(description="The text of the kernel's file; needs `language`.")]
Language = Annotated[str | None, Field(description="triton, cuda, tilelang, cutedsl, cpp or python.")]
PathName = Annotated[str | None, Field(description="A kernel's file or folder, instead of `source`.")]
DefinitionName = Annotated[str | None, Field(description="What it computes; by default what its first lines name.")]
CallText = Annotated[
    str | None, Field(description="The function to call, if not `run`, or a call: f(x, (hidden,), weight, eps).")
]
Strided = Annotated[bool, Field(description="It takes rows at any stride: judge it on views of larger tensors too.")]
Sizes = Annotated[list[int], Field(description="Batch sizes to judge it at; empty for those of `try`.")]
Side = Annotated[str, Field(description="A registered Solution, or the path of a kernel's file.")]


def make_server(requests: Requests) -> MCPServer:
    """The server of one service."""
    server: MCPServer = MCPServer("fib-rmsnorm", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    _add_verdicts(server, requests)
    _add_other_tools(server, requests)
    _add_resources(server, requests)
    return server


def _add_verdicts(server: MCPServer, requests: Requests) -> None:
    def add(name: str, description: str, *, timed: bool) -> None:
        @server.tool(name, description=description)
        async def judge(
            context: Context,
            source: Source = None,
            language: Language = None,
            path: PathName = None,
            definition: DefinitionName = None,
            call: CallText = None,
            strided: Strided = False,
            batch_sizes: Sizes = [],  # noqa: B006 - never changed
            verbose: bool = False,
        ) -> Annotated[CallToolResult, Feedback]:
            def submit(client: str, on_change: Callable[[Job], None]) -> Job:
                with requests.open_kernel((source, language, path, definition, call, strided)) as file:
                    return requests.service.submit(
                        client, file, timed=timed, batch_sizes=batch_sizes, on_change=on_change
                    )

            job = await _follow(context, requests, submit)
            with _telling():
                version = job.wait()  # it is done
            return _answer(make_feedback(version, request=job.id, is_whole=verbose).to_json())

    add(
        "check",
        "Judge whether a kernel is right, on every Workload, and say what is wrong and where. Times nothing.",
        timed=False,
    )
    add(
        "measure",
        "Judge a kernel, and if it is right time it beside the reference and a baseline: speedup with its interval.",
        timed=True,
    )

    @server.resource("fib-rmsnorm://results/{request}")
    def result(request: str) -> str:
        """Return the result of an earlier `check` or `measure`, by its id."""
        try:
            job = requests.service.find(request)
        except InputError as error:
            raise ResourceNotFoundError(str(error)) from None
        if job.version is None or job.error:
            return json.dumps({"id": job.id, "state": job.state, "error": job.error})
        return make_feedback(job.version, request=job.id).to_json()


def _add_other_tools(server: MCPServer, requests: Requests) -> None:
    @server.tool()
    async def explain(
        context: Context,
        source: Source = None,
        language: Language = None,
        path: PathName = None,
        solution: Annotated[str | None, Field(description="A registered Solution, instead of a kernel.")] = None,
        definition: DefinitionName = None,
        call: CallText = None,
        arch: Annotated[
            str | None, Field(description="GPU architecture, such as sm_90 or gfx942; needs no GPU.")
        ] = None,
        batch_sizes: Sizes = [],  # noqa: B006
    ) -> Annotated[CallToolResult, Explanation]:
        """Explain a GPU kernel from its compiled code: registers, memory accesses, occupancy, and what limits it."""
        kernel: Kernel = (source, language, path, definition, call, False)
        work = partial(requests.explain, kernel, solution, arch, tuple(batch_sizes))
        return await _work(context, requests, work, Explanation, is_alone=False)

    @server.tool()
    async def compare(
        context: Context,
        old: Side,
        new: Side,
        definition: DefinitionName = None,
        batch_sizes: Sizes = [],  # noqa: B006
        rounds: Annotated[int, Field(ge=1, le=9, description="Rounds, each in new processes.")] = 2,
    ) -> Annotated[CallToolResult, TimedComparison]:
        """Time two kernels in turn: whether the new one is faster, slower or a tie, with the interval of the ratio."""
        work = partial(requests.compare, (old, new), definition, tuple(batch_sizes), rounds)
        return await _work(context, requests, work, TimedComparison, is_alone=True)

    @server.tool()
    def best(
        definition: DefinitionName = None,
        batch_sizes: Sizes = [],  # noqa: B006
    ) -> Annotated[CallToolResult, Rankings]:
        """The fastest recorded Solution for each Workload and device, with ties."""
        with _telling():
            return _answer(requests.rank(definition, batch_sizes).model_dump_json())

    @server.tool()
    def new(
        language: Annotated[str, Language], definition: DefinitionName = None
    ) -> Annotated[CallToolResult, NewKernel]:
        """Return a small kernel to start from, correct for a known operator. Writes no file."""
        with _telling():
            return _answer(requests.start_kernel(language, definition).model_dump_json())


def _add_resources(server: MCPServer, requests: Requests) -> None:
    @server.resource("fib-rmsnorm://definitions")
    def definitions() -> str:
        """The Definitions, by name, with a sentence on each."""
        return json.dumps({name: each.description for name, each in requests.registry.definitions().items()})

    @server.resource("fib-rmsnorm://definitions/{name}")
    def one_definition(name: str) -> str:
        """A Definition: axes, inputs, outputs, and the reference."""
        try:
            return requests.registry.definition(name).model_dump_json(exclude_none=True)
        except InputError as error:
            raise ResourceNotFoundError(str(error)) from None

    @server.resource("fib-rmsnorm://rules")
    def rules() -> str:
        """The rules for a kernel, and the inputs that it is judged on."""
        return RULES

    @server.resource("fib-rmsnorm://legend")
    def legend() -> str:
        """The meanings of the words and numbers in results."""
        return "\n".join(f"{word}: {meaning}" for word, meaning in LEGEND.items())


@contextmanager
def _telling() -> Iterator[None]:
    """Report a wrong argument, or why there is no answer, to the client."""
    try:
        yield
    except (FibRmsnormError, OSError) as error:
        raise ToolError(" ".join(str(error).split())) from None


async def _follow(context: Context, requests: Requests, submit: Callable[[str, Callable[[Job], None]], Job]) -> Job:
    """Submit a request, report its progress, and cancel it if the client cancels it or disconnects."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def on_change(_: Job) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(changed.set)

    with _telling():
        job = await asyncio.to_thread(submit, _name_client(context), on_change)
    try:
        told = -1
        while job.state != "done":
            await changed.wait()
            changed.clear()
            done, steps = job.progress
            if done > told:
                told = done
                await context.report_progress(done, steps, job.state if not done else f"{done} of {steps} steps")
    except BaseException:
        requests.service.cancel(job)
        raise
    return job


def _name_client(context: Context) -> str:
    """The identity of a client: its session; with the stateless protocol, the name that it sends."""
    parameters = context.request_context.session.client_params
    session = (context.headers or {}).get("mcp-session-id")
    return session or (parameters.client_info.name if parameters else "client")


async def _work(
    context: Context, requests: Requests, plan: Callable[[], Work], kind: type[BaseModel], *, is_alone: bool
) -> CallToolResult:
    """Have other work planned and done; its result is of this kind."""
    job = await _follow(
        context, requests, lambda client, told: requests.service.put(Job(client, told, work=plan(), is_alone=is_alone))
    )
    if job.error or not isinstance(job.value, kind):
        raise ToolError(job.error or "the request was cancelled")
    return _answer(job.value.model_dump_json())


def _answer(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=json.loads(text))
