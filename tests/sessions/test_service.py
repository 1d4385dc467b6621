"""A service judges the kernels of many clients side by side, and loses and mixes up none."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import sleep

import pytest

from fib_rmsnorm import FibRmsnormError
from fib_rmsnorm.registry.sources.kernel_file import text_as_file
from fib_rmsnorm.sessions.device_turns import DeviceTurns
from fib_rmsnorm.sessions.job import Job, QueueFullError
from fib_rmsnorm.sessions.service import Service
from support.hanging import FOR_EVER_S
from support.registries import CRASHES, HANGS, NO_EPS, RIGHT, UNNAMED

KERNELS = {
    "PASSED": RIGHT,
    "INCORRECT_NUMERICAL": NO_EPS,
    "RUNTIME_ERROR": CRASHES,
    "COMPILE_ERROR": f"import nonesuch\n{RIGHT}",
}


def submit(service: Service, client: str, source: str, **options) -> Job:
    with text_as_file(source, "python") as kernel:
        return service.submit(client, kernel, batch_sizes=(2,), **options)


@pytest.mark.process
def test_eight_clients_get_each_their_own_verdicts(serve):
    service = serve(evaluators=2)
    found: dict[tuple[int, str], Job] = {}

    def ask(client: int) -> None:
        for status, source in KERNELS.items():
            found[client, status] = submit(service, f"client {client}", f"{source}# {client}\n", timed=client == 0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    for (client, status), job in found.items():
        version = job.wait()
        assert version.status == status, version
        assert bool(version.timings) == (client == 0 and status == "PASSED")
        assert service.find(job.id) is job
    assert len({job.id for job in found.values()}) == len(found)
    version = found[0, "PASSED"].version
    assert [each.solution for each in version.find_rivals(version.workloads[0].uuid)] == ["rmsnorm_python_plain_v1"]


def test_equal_kernels_of_two_clients_have_each_their_own_worker(serve):
    service = serve(evaluators=2)
    jobs = [submit(service, client, RIGHT, timed=False) for client in "ab"]
    assert [job.wait().status for job in jobs] == ["PASSED", "PASSED"]


def test_a_client_that_waits_for_each_verdict_gets_the_evaluator_that_is_warm(serve):
    service = serve(evaluators=3)
    used = []

    def note(job: Job) -> None:
        if job in service._running:
            used.append(service._running[job])

    for number in range(4):
        assert submit(service, "a", f"{RIGHT}# {number}", timed=False, on_change=note).wait().status == "PASSED"
    assert len(set(used)) == 1


def test_clients_take_turns_whoever_has_asked_more(serve):
    service = serve()
    order: list[str] = []
    blocks = submit(service, "c", HANGS, timed=False)

    def note(job: Job) -> None:
        if job.state == "running" and job.client not in order[-1:]:
            order.append(job.client)

    jobs = [
        submit(service, client, f"{RIGHT}# {number}", timed=False, on_change=note)
        for number, client in enumerate("aaab")
    ]
    service.cancel(blocks)
    assert blocks.wait().status == "ABANDONED"
    assert [job.wait().status for job in jobs] == ["PASSED"] * 4
    assert order == ["a", "b", "a"]


def test_a_client_may_queue_only_so_much_and_cancel_what_waits(serve):
    service = serve(most_queued=2)
    started = threading.Event()
    runs = submit(service, "a", HANGS, timed=False, on_change=lambda job: started.set())
    assert started.wait(60)
    waits = [submit(service, "a", RIGHT, timed=False) for _ in range(2)]
    with pytest.raises(QueueFullError, match="2 requests of this client wait already"):
        submit(service, "a", RIGHT)
    other = submit(service, "b", RIGHT, timed=False)
    service.cancel(waits[0])
    assert waits[0].wait().status == "ABANDONED"
    again = submit(service, "a", RIGHT, timed=False)
    service.leave("a")
    assert [job.wait().status for job in (runs, waits[1], again)] == ["ABANDONED"] * 3
    assert other.wait().status == "PASSED"
    service.cancel(other)
    assert other.version.status == "PASSED" and not other.cancelled


TWICE = UNNAMED + UNNAMED.replace("def norm", "def again")


def test_the_right_call_is_found_by_computing(serve):
    service = serve()
    found = submit(service, "a", UNNAMED).wait()
    assert (found.status, found.note, len(found.timings)) == ("PASSED", "Called as norm(weight, x, eps)", 1)
    wrong = submit(service, "a", UNNAMED.replace("+ eps", "+ 0 * eps"), timed=False).wait()
    assert (wrong.status, wrong.note) == ("INCORRECT_NUMERICAL", "Called as norm(weight, x, eps)")
    assert "the output equals RMSNorm without eps" in wrong.failures[0].log
    both = submit(service, "a", TWICE, timed=False).wait()
    assert (both.status, both.refused) == ("COMPILE_ERROR", "kernel.py: norm and again are correct; choose one of:")
    assert both.hint.splitlines() == ["--call 'norm(weight, x, eps)'", "--call 'again(weight, x, eps)'"]
    assert submit(service, "a", RIGHT, timed=False).wait().status == "PASSED"


def test_what_hangs_while_its_call_is_looked_for_is_cancelled(serve):
    service = serve(timeout_s=FOR_EVER_S)
    started = threading.Event()
    hangs = HANGS.replace("run(x, weight, eps)", "norm(p, q, r)")
    job = submit(service, "a", hangs, timed=False, on_change=lambda job: started.set())
    assert started.wait(60)
    service.cancel(job)
    assert job.wait().status == "ABANDONED"
    assert submit(service, "a", RIGHT, timed=False).wait().status == "PASSED"


def test_a_reference_that_fails_costs_a_request_its_verdict_and_blames_no_kernel(serve, rival_registry):
    registry, definition = rival_registry, rival_registry.definition("rmsnorm_d128")
    broken = definition.model_copy(update={"name": "broken", "reference": f"import nonesuch\n{definition.reference}"})
    registry.write_definition(broken)
    service = serve()
    with text_as_file(RIGHT, "python") as kernel:
        named = replace(kernel, definition="broken")
        job = service.submit("a", named, batch_sizes=(2,), timed=False)
    with pytest.raises(FibRmsnormError, match="the reference of broken failed"):
        job.wait()
    with text_as_file(RIGHT, "python") as kernel:
        named = replace(kernel, definition="rmsnorm_d128")
        assert service.submit("a", named, batch_sizes=(2,), timed=False).wait().status == "PASSED"
    registry.layout.definition("norm", "broken").unlink(missing_ok=True)


def test_nothing_is_judged_while_something_is_timed():
    turns = DeviceTurns()
    judging, timing, faults = list[int](), list[int](), list[int]()

    def judge() -> None:
        with turns.judging():
            judging.append(1)
            sleep(1e-4)
            faults.extend(timing)
            judging.pop()

    def time() -> None:
        with turns.timing():
            timing.append(1)
            sleep(1e-4)
            faults.extend([*judging, *timing[1:]])
            timing.pop()

    with ThreadPoolExecutor(5) as pool:
        for number in range(250):
            pool.submit(time if number % 5 < 2 else judge)
    assert not faults
