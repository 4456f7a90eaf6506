"""Ends runs at random moments and checks the next run: `python -m tools.kill_runs [FILES] --moments 50`.

- At each moment, with its own cache and folder for temporary files: a check starts, and after a random time SIGKILL
  ends the process itself or one of its workers, or both folders are on a disk of a random size that fills up.
- The interrupted check prints no traceback. The next one, with enough space, gives the same report as an undisturbed
  one. After it there is no process, no temporary folder and no incomplete entry in the cache.
- The disk is a tmpfs in a mount namespace of this process. An ordinary user starts with `unshare -rm`; without a
  namespace, RLIMIT_FSIZE limits the size of each file instead, and the output says so.

Prints a row for each moment and a table; exits with 1 if a moment failed.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.errors import ArtifactError
from ligerdiag.workers import templates

MARK = "LIGERDIAG_KILL_RUNS"
KINDS = ("parent", "worker", "full")
ROOM = "1g"
"""Size of a disk that does not fill up."""
PAGE = 4096
_SETTLE_SECONDS = 600.0
"""The longest time in which workers that are importing notice that their parent has died."""

type Answer = Mapping[str, Any]


def interrupt(
    files: Sequence[str], kind: str, moment: float, size: int, home: Path, *, is_limited: bool = True
) -> tuple[int, str]:
    """Runs a check that is interrupted, and returns its exit code and its stderr.

    moment: seconds from its start. size: the most bytes of a file, if the size of the disk does not limit it.
    """
    process = _start(files, home)
    if kind == "full":
        if is_limited:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
        return _wait(process)
    time.sleep(moment)
    victims = [process.pid] if kind == "parent" else [pid for pid in find_processes(home) if pid != process.pid]
    if victims:
        with suppress(ProcessLookupError):
            os.kill(random.Random(moment).choice(victims), signal.SIGKILL)
    return _wait(process)


def check(files: Sequence[str], home: Path) -> Answer:
    """Returns the status, verdicts and findings of each case in an undisturbed run."""
    output, errors = _start(files, home).communicate()
    if not output:
        return {"error": errors[-2000:]}
    cases = json.loads(output)["cases"]
    return {case["id"]: [case["status"], case["outputs"], case["error"], case["findings"]] for case in cases}


def list_leftovers(home: Path) -> tuple[str, ...]:
    """Returns what a run has left: processes, temporary files, locks of runs, incomplete entries of the cache."""
    end = time.monotonic() + _SETTLE_SECONDS
    while find_processes(home) and time.monotonic() < end:
        time.sleep(0.2)
    found = [f"process {pid}" for pid in find_processes(home)]
    found += [str(path) for path in (home / "tmp").iterdir()]
    cache = home / "cache"
    found += [str(path) for path in cache.rglob("*") if path.name.startswith((".", "run-", "tmp."))]
    found += [str(path) for path in cache.glob("artifacts/*") if not _is_artifact(path)]
    found += [str(path) for path in cache.glob("*/*.json") if not _is_json(path)]
    return tuple(found)


def find_processes(home: Path) -> list[int]:
    """Returns the processes of runs that use these folders."""
    mark, found = f"{MARK}={home}".encode(), list[int]()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def enter_namespace() -> str:
    """Makes later mounts of this process private; returns the reason if it cannot mount, else an empty string."""
    try:
        os.unshare(os.CLONE_NEWNS)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True, text=True)
    except OSError as error:
        return f"no mount namespace: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return f"no mount namespace: {error.stderr.strip()}"
    return ""


@contextmanager
def mount_disk(home: Path, size: int) -> Generator[None]:
    """Mounts a disk of that many bytes at `home`, an empty folder."""
    _mount(home, f"size={size}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


def free_disk(home: Path) -> None:
    """Enlarges the disk, so that it is no longer full."""
    _mount(home, f"remount,size={ROOM}")


def _mount(home: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(home)], check=True)


def _start(files: Sequence[str], home: Path) -> subprocess.Popen[str]:
    (home / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "ligerdiag", "check", *files, "--format", "json", "--no-replay", "-j", "2"]
    environment = os.environ | {
        MARK: str(home),
        "TMPDIR": str(home / "tmp"),
        "LIGERDIAG_CACHE_DIR": str(home / "cache"),
    }
    environment.pop(templates.VARIABLE, None)  # a template that others keep would count as left behind
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def _wait(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate()
    return process.returncode, errors


def _is_artifact(folder: Path) -> bool:
    try:
        load_artifact(folder)
    except (ArtifactError, OSError):
        return False
    return True


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True


def _count_bytes(home: Path) -> int:
    """Returns the bytes in whole pages, as a tmpfs counts."""
    return sum(-(-path.lstat().st_size // PAGE) * PAGE for path in home.rglob("*") if path.is_file())


def _try_moment(
    files: Sequence[str], kind: str, moment: float, size: int, expected: Answer, *, has_disk: bool
) -> tuple[int, list[str]]:
    """Returns the outcome of the interrupted check, and everything that went wrong."""
    with tempfile.TemporaryDirectory(prefix="kill-runs-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        with mount_disk(home, size) if kind == "full" and has_disk else nullcontext():
            code, errors = interrupt(files, kind, moment, size, home, is_limited=not has_disk)
            if kind == "full" and has_disk:
                free_disk(home)
            answer = check(files, home)
            wrong = [] if answer == expected else [f"the next run reports {answer}"]
            wrong += [f"left: {one}" for one in list_leftovers(home)]
            if "Traceback" in errors and kind != "worker":
                wrong.append(errors[-2000:])
    return code, wrong


def main() -> int:
    """Tries random moments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=["cases/constant.py"])
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    refused = enter_namespace()
    if refused:
        sys.stdout.write(f"{refused}: RLIMIT_FSIZE limits files, instead of a full disk\n")
    numbers = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="kill-runs-") as name:
        started = time.monotonic()
        expected = check(options.files, Path(name))
        whole, used = time.monotonic() - started, _count_bytes(Path(name))
    if "error" in expected:
        sys.stdout.write(f"an undisturbed run fails: {expected['error']}\n")
        return 1
    sys.stdout.write(f"an undisturbed run: {whole:.1f} s, {used} bytes left in the cache\n")
    passed, all_moments = Counter[str](), Counter[str]()
    for count in range(options.moments):
        kind, moment = options.kinds[count % len(options.kinds)], numbers.uniform(0, whole)
        size = int(PAGE * (used / PAGE) ** numbers.uniform(0, 1)) // PAGE * PAGE
        code, wrong = _try_moment(options.files, kind, moment, size, expected, has_disk=not refused)
        what = f"{size:10} bytes" if kind == "full" else f"{moment:12.2f} s  "
        verdict = "failed" if wrong else "passed"
        sys.stdout.write(f"{count + 1:3}/{options.moments} {kind:6} {what} ended with {code:3}, then {verdict}\n")
        sys.stdout.writelines(f"    {line}\n" for line in wrong)
        sys.stdout.flush()
        all_moments[kind] += 1
        passed[kind] += not wrong
    sys.stdout.write("| kind | moments | passed |\n|---|---|---|\n")
    sys.stdout.writelines(f"| {kind} | {all_moments[kind]} | {passed[kind]} |\n" for kind in options.kinds)
    return int(passed != all_moments)


if __name__ == "__main__":
    raise SystemExit(main())
