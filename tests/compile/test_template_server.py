"""Templates that serve many runs: each worker behaves as if it came from its run's own template."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ligerdiag.codec import parse_object, read_str
from ligerdiag.model.jobs import Job, Source, render_request
from ligerdiag.toolchains.toolchain import describe_interpreter
from ligerdiag.workers import template_server, templates
from ligerdiag.workers.pool import Pool
from ligerdiag.workers.process import ALSO_VARIABLE
from ligerdiag.workers.templates import Templates
from tests.replay.processes import is_running

ROOT = Path(__file__).parents[2]
SECONDS = 600.0
TELLING = """
import json, os, resource, tempfile
from ligerdiag.workers.loop import serve
def prepare():
    def answer(job, log):
        return json.dumps({"answer": json.dumps({
            "pid": os.getpid(), "template": os.getppid(), "cwd": os.getcwd(), "folder": tempfile.gettempdir(),
            "data": resource.getrlimit(resource.RLIMIT_DATA)[0],
            "variables": {n: os.environ.get(n) for n in ("LIGERDIAG_CACHE_DIR", "PYTEST_LIKE", "OTHER")},
        })}) + "\\n"
    return answer
if __name__ == "__main__":
    serve(prepare)
"""
JOB = Job(
    source=Source(root=""),
    name="a test",
    render=lambda log: render_request("Test", {}, log),
    parse=lambda line: json.loads(read_str(parse_object(line), "answer")),
)

type Ask = Callable[..., dict[str, object]]


@pytest.fixture
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that keeps at most as many idle templates as the parameter says; the default is the usual maximum."""
    maximum = getattr(request, "param", template_server.MAXIMUM)
    path = tmp_path / "socket"
    command = [sys.executable, "-m", template_server.__name__, str(path), str(maximum)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT) as process:
        wait_until(path.exists)
        monkeypatch.setenv(templates.VARIABLE, str(path))
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """Asks a worker of a new pool with these variables; `limit` bounds its memory, `ends` closes the pool."""
    (tmp_path / "telling_worker.py").write_text(TELLING)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    pools: list[Pool] = []

    def ask_it(*, limit: int | None = None, ends: bool = False, **variables: str) -> dict[str, object]:
        pool = Pool(
            toolchain=describe_interpreter(),
            jobs=1,
            timeout=SECONDS,
            memory_limit=limit,
            module="telling_worker",
            environment={"PYTHONPATH": path, **variables},
        )
        pools.append(pool)
        said = pool.submit(JOB).result()
        if ends:
            pool.close()
        return said

    yield ask_it
    for pool in pools:
        pool.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def read_parent(pid: object) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.mark.usefixtures("server")
def test_workers_of_two_pools_are_forks_of_one_template_with_their_own_settings(ask: Ask) -> None:
    one = ask(limit=8 << 30, LIGERDIAG_CACHE_DIR="a", PYTEST_LIKE="1")
    two = ask(limit=9 << 30, LIGERDIAG_CACHE_DIR="b")
    assert one["pid"] != two["pid"]
    assert one["template"] == two["template"]
    assert one["cwd"] == one["folder"]
    assert two["cwd"] == two["folder"] != one["cwd"]
    assert (one["data"], two["data"]) == (8 << 30, 9 << 30)
    assert one["variables"] == {"LIGERDIAG_CACHE_DIR": "a", "PYTEST_LIKE": "1", "OTHER": None}
    assert two["variables"] == {"LIGERDIAG_CACHE_DIR": "b", "PYTEST_LIKE": None, "OTHER": None}


@pytest.mark.usefixtures("server")
def test_another_environment_uses_another_template(ask: Ask) -> None:
    one, two = ask(), ask(OTHER="2")
    assert one["template"] != two["template"]
    assert two["variables"] == one["variables"] | {"PYTEST_LIKE": None, "OTHER": "2"}


def test_the_templates_belong_to_the_server_and_end_with_it(ask: Ask, server: subprocess.Popen[bytes]) -> None:
    one = ask()
    assert read_parent(one["template"]) == server.pid
    server.kill()
    wait_until(lambda: not any(is_running(int(str(one[name]))) for name in ("pid", "template")))


def test_without_a_server_a_pool_has_its_own_template(ask: Ask, server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()
    assert read_parent(ask()["template"]) == os.getpid()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("server", [1], indirect=True)
def test_the_most_recently_used_idle_templates_are_kept(ask: Ask) -> None:
    one = ask(ends=True)
    two = ask(OTHER="2")
    wait_until(lambda: not is_running(int(str(one["template"]))))
    three = ask(OTHER="3")
    assert is_running(int(str(two["template"]))), "its worker still waits for jobs"
    assert is_running(int(str(three["template"])))


OTHER = """
import json, os
def prepare():
    return lambda job, log: json.dumps({"answer": json.dumps({"template": os.getppid(), "module": __name__})}) + "\\n"
if __name__ == "__main__":
    from ligerdiag.workers.loop import serve
    serve(prepare)
"""
THREADED = """
import threading, time
from ligerdiag.workers.loop import serve
def prepare():
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    return lambda job, log: "{}\\n"
if __name__ == "__main__":
    serve(prepare)
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Returns the environment in which workers find the three modules."""
    monkeypatch.delenv(templates.VARIABLE, raising=False)
    for name, text in (("telling_worker", TELLING), ("other_worker", OTHER), ("threaded_worker", THREADED)):
        (tmp_path / f"{name}.py").write_text(text)
    return {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}


def open_pool(modules: dict[str, str], templates: Templates, module: str, template: str = "") -> Pool:
    return Pool(
        toolchain=describe_interpreter(),
        jobs=1,
        timeout=SECONDS,
        module=module,
        environment=modules,
        templates=templates,
        template=template,
    )


def test_pools_of_one_run_share_a_template_whatever_their_workers_run(modules: dict[str, str]) -> None:
    with Templates() as templates:
        with open_pool(modules, templates, "telling_worker") as pool:
            one = pool.submit(JOB).result()
        with open_pool(modules, templates, "other_worker", "telling_worker") as pool:
            two = pool.submit(JOB).result()
    assert one["template"] == two["template"]
    assert two["module"] == "other_worker"
    wait_until(lambda: not is_running(int(str(one["template"]))))


def test_a_template_that_cannot_be_forked_runs_no_other_module(modules: dict[str, str]) -> None:
    with Templates() as templates, open_pool(modules, templates, "other_worker", "threaded_worker") as pool:
        said = pool.submit(JOB).result()
    assert (said["template"], said["module"]) == (os.getpid(), "__main__")


@pytest.mark.usefixtures("own_templates")
def test_a_template_also_imports_and_calls_for_its_forks_and_skips_what_is_missing(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "telling_more.py").write_text("import os\ndef note(): os.environ['OTHER'] = 'called'\n")
    answer = ask(**{ALSO_VARIABLE: "no_such_module:note,telling_more:note"})
    assert answer["variables"] == {"LIGERDIAG_CACHE_DIR": None, "PYTEST_LIKE": None, "OTHER": "called"}
