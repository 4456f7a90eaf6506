"""Runs a task on a worker: `check` of one case, in a process of its own.

The result of a sweep's task goes to the store, that of `check --scheduler` back to the client. An abort of XLA, a crash of
the case or a lack of memory ends that process, or one that it started, and the worker continues. If there is a report of
such a case nevertheless, it is a result and is stored. A process that ends without a report raises TaskDied: the task is
tried again, also by other workers (see `cluster`), and nothing is stored. The process and its own workers end with the
worker.

A worker whose ligerdiag, toolchain or files differ from the client's raises UnfitWorker: the key under which its result
would be stored is computed from the client's.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ligerdiag import api
from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.dependencies import drop_unseen
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.codec import (
    FieldError,
    Json,
    as_object,
    encode_record,
    parse_object,
    parse_record,
    read_bool,
    read_list,
    read_str,
)
from ligerdiag.compile.compile_service import find_artifact_dependencies
from ligerdiag.errors import LigerdiagError
from ligerdiag.sweep.grid import SweepTask, compute_fingerprint, describe_task, locate_files, name_files
from ligerdiag.sweep.result_store import ResultStore, StoredResult
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.toolchain import compute_important_environment
from ligerdiag.untrusted_files import MAXIMUM_JSON_BYTES

_PROGRAM = (
    "import sys; from ligerdiag.ending import die_with_parent; die_with_parent(int(sys.argv.pop(1))); "
    "from ligerdiag.{module} import main; main()"
)
_SPARE_SECONDS = 1800.0
"""Seconds added to twice the task's time limit, for making a toolchain's environment, for imports, and for a busy
machine.
"""
_TAIL = 300
"""Number of characters from the end of a process's log that an error shows."""


class TaskDied(LigerdiagError):
    """Raised if the process of a task ended without a report."""


class UnfitWorker(LigerdiagError):
    """Raised if ligerdiag, the toolchain or the files of a worker differ from those of the client."""


def run_task(task: SweepTask, words: tuple[str, bool]) -> bool:
    """Runs a sweep's task and stores its result. Returns False if the store has the result already.

    words: the location of the store, and whether to replace an existing result. Raises TaskDied if the process of the task
    ends without a report, and UnfitWorker if this worker differs from the client.
    """
    place, is_again = words
    store = ResultStore(place)
    if (
        not is_again and (found := store.find(task.key)) is not None and is_of(found, task)
    ):  # a worker that was lost had done the task
        return False
    cache = Cache()
    _require_same(task, cache)
    report, data = _run(task, lambda path: make_command(task, path))
    _require_whole(report, task)
    traced = find_artifact_dependencies(
        task.source,
        task.case_id,
        load_target(task.target),
        cache=cache,
        toolchain=provide_toolchain(task.toolchain, cache),
        environ=make_environ(task),
    )
    dependencies = {**task.dependencies, **name_files(task.source, traced)}
    if len(data) > MAXIMUM_JSON_BYTES // 2:  # without its page the result is small enough to count
        data = b""
    described = describe_task(task)
    store.keep(StoredResult(key=task.key, task=described, dependencies=dependencies, report=report, data=data))
    return True


def answer_task(task: SweepTask, options: Json) -> Json:
    """Checks a task's case, and returns the report of `api.check` as plain data. options: the options of `api.check`. Raises
    the errors of `run_task`.
    """
    _require_same(task, Cache())
    scratch = ScratchFolder("check")
    try:
        asked = scratch.path / "options.json"
        asked.write_text(json.dumps(options), encoding="utf-8")
        return _run(task, lambda path: [*_start("sweep.task"), str(asked), str(path)])[0]
    finally:
        scratch.remove()


def make_environ(task: SweepTask) -> dict[str, str]:
    """Returns the environment variables for a task's process. They are those of this worker; variables that can change a
    compile have the task's values.
    """
    here = compute_important_environment()
    return {name: value for name, value in os.environ.items() if name not in here} | dict(task.environment)


def make_command(task: SweepTask, report: Path) -> list[str]:
    """Returns the command that checks a task's case. It writes the report to the file `report`, and the data of the page
    into a file beside it.
    """
    return [
        *(*_start("__main__"), "check", task.selector),
        *("--target", task.target, "--toolchain", task.toolchain),
        *("--output", f"json={report}", "--jobs", "1", "--timeout", str(task.timeout)),
        "--replay" if task.replay else "--no-replay",
        *(("--data", str(_locate_data(report))) if task.pages else ()),
    ]


def _locate_data(report: Path) -> Path:
    return report.with_name("data")


def _start(module: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-c", _PROGRAM.format(module=module), str(os.getpid()))


def _run(task: SweepTask, make: Callable[[Path], list[str]]) -> tuple[Json, bytes]:
    """Runs the command that `make` returns for a report's path; returns the report and the data of the page."""
    scratch = ScratchFolder("sweep")
    path, log = scratch.path / "report.json", scratch.path / "log"
    try:
        with log.open("wb") as said:
            done = subprocess.run(
                make(path),
                check=False,
                cwd=task.folder,
                env=make_environ(task),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
                timeout=2 * task.timeout + _SPARE_SECONDS,
            )
        if path.exists():
            data = _locate_data(path)
            return parse_object(path.read_bytes()), data.read_bytes() if data.exists() else b""
        last = log.read_text(encoding="utf-8", errors="replace").strip()[-_TAIL:]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise TaskDied(f"case `{task.case_id}`: the check ended with {how} and no report: {last}")
    except subprocess.TimeoutExpired as error:
        raise TaskDied(
            f"case `{task.case_id}`: the check took longer than {error.timeout:g} s, and was ended"
        ) from None
    except FieldError as error:
        raise TaskDied(f"case `{task.case_id}`: {error}") from error
    except OSError as error:
        raise UnfitWorker(f"cannot run a check in `{task.folder}`: {error}") from error
    finally:
        scratch.remove()


def _require_whole(report: Json, task: SweepTask) -> None:
    """Raises TaskDied if the report is of a check that was ended early, or has no cases."""
    try:
        if read_bool(report, "interrupted"):
            raise TaskDied(f"case `{task.case_id}`: the check was ended by {read_str(report, 'ended_by')}")
        if not read_list(report, "cases"):
            raise TaskDied(f"case `{task.case_id}`: the report of the check does not have this case")
    except FieldError as error:
        raise TaskDied(f"case `{task.case_id}`: {error}") from error


def _require_same(task: SweepTask, cache: Cache) -> None:
    if compute_fingerprint(task.toolchain) != task.fingerprint:
        raise UnfitWorker(
            f"ligerdiag or a package of toolchain `{task.toolchain}` on a worker differs from that on the client:"
            " install the same versions on both"
        )
    if not cache.are_unchanged(drop_unseen(locate_files(task.source, task.dependencies))):
        raise UnfitWorker(f"files on a worker differ from those on the client: give it the same `{task.source.root}`")


def main() -> None:
    """Runs `api.check` and writes its report to a file. The first argument on the command line is a JSON file with the
    options; the second is the file for the report. The file is complete or missing.
    """
    asked, answer = map(Path, sys.argv[1:])
    report = api.check(parse_record(api.CheckOptions, asked.read_bytes()))
    temporary = answer.with_suffix(".part")
    temporary.write_text(json.dumps(encode_record(report)), encoding="utf-8")
    temporary.rename(answer)


def find_case(report: Json, case_id: str) -> Json:
    """Returns a report's entry for a case. Without one, returns the first entry with an error, such as a file whose cases
    cannot be read. Raises FieldError if there is neither.
    """
    cases = [as_object(case, "cases") for case in read_list(report, "cases")]
    own = next((case for case in cases if case.get("id") == case_id), None)
    if own is None:
        own = next((case for case in cases if case.get("error")), None)
    if own is None:
        raise FieldError(f"expected case `{case_id}` in the report, but the report does not have it")
    return own


def is_of(result: StoredResult, task: SweepTask) -> bool:
    """Returns whether a stored result and the report in it were made for a task."""
    try:
        case = find_case(result.report, task.case_id)
        is_same_target = os.sep in task.target or read_str(case, "target") == task.target
    except FieldError:
        return False
    return result.task == describe_task(task) and is_same_target
