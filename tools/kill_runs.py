"""Ends runs at random moments and looks at the next one: `python -m tools.kill_runs [FILES] --moments 50`.

Each moment, on a cache of its own: a check is started, and after a random time the process itself or one of its workers is
killed by SIGKILL, or no file may grow beyond a random size from the start, as on a disk that is full. The next check has to
say what an undisturbed one says, and behind it there may be no process, no temporary folder and nothing half written in
the cache. Exits with 1 after the first moment that is otherwise.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

MARK = "LIGERDIAG_KILL_RUNS"
KINDS = ("parent", "worker", "full")
_SETTLE_SECONDS = 15.0
"""Longest that workers may take to notice that their parent is gone, while they import."""

type Answer = Mapping[str, Any]


def interrupt(files: Sequence[str], kind: str, moment: float, size: int, home: Path) -> None:
    """Runs a check that does not end well. moment: seconds from its start. size: bytes that a file may have at most."""
    process = _start(files, home)
    if kind == "full":
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
        process.communicate()
        return
    time.sleep(moment)
    victims = [process.pid] if kind == "parent" else [pid for pid in _find_processes(home) if pid != process.pid]
    if victims:
        with suppress(ProcessLookupError):
            os.kill(random.Random(moment).choice(victims), signal.SIGKILL)
    process.communicate()


def check(files: Sequence[str], home: Path) -> Answer:
    """Returns what an undisturbed run says of each case: its status, verdicts and findings."""
    output, errors = _start(files, home).communicate()
    if not output:
        return {"error": errors[-2000:]}
    cases = json.loads(output)["cases"]
    return {case["id"]: [case["status"], case["outputs"], case["error"], case["findings"]] for case in cases}


def list_left(home: Path) -> tuple[str, ...]:
    """Returns what a run has left behind: processes, temporary files, unfinished files, locks of runs."""
    end = time.monotonic() + _SETTLE_SECONDS
    while _find_processes(home) and time.monotonic() < end:
        time.sleep(0.2)
    found = [f"process {pid}" for pid in _find_processes(home)]
    found += [str(path) for path in (home / "tmp").iterdir()]
    found += [str(path) for path in (home / "cache").rglob("*") if path.name.startswith((".tmp-", "run-"))]
    return tuple(found)


def _start(files: Sequence[str], home: Path) -> subprocess.Popen[str]:
    (home / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "ligerdiag.cli", "check", *files, "--format", "json", "--no-replay", "-j", "2"]
    environment = os.environ | {
        MARK: str(home),
        "TMPDIR": str(home / "tmp"),
        "LIGERDIAG_CACHE_DIR": str(home / "cache"),
    }
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def _find_processes(home: Path) -> list[int]:
    mark, found = f"{MARK}={home}".encode(), list[int]()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def main() -> int:
    """Tries random moments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=["cases/constant.py"])
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    numbers = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="kill-runs-") as name:
        started = time.monotonic()
        expected = check(options.files, Path(name))
        whole = time.monotonic() - started
    if "error" in expected:
        sys.stdout.write(f"an undisturbed run fails: {expected['error']}\n")
        return 1
    for count in range(options.moments):
        kind, moment = KINDS[count % len(KINDS)], numbers.uniform(0, whole)
        size = int(2 ** numbers.uniform(0, 18))
        with tempfile.TemporaryDirectory(prefix="kill-runs-") as name:
            interrupt(options.files, kind, moment, size, Path(name))
            answer = check(options.files, Path(name))
            left = list_left(Path(name))
        what = f"{kind}, {size} bytes" if kind == "full" else f"{kind}, {moment:.2f} s"
        is_well = answer == expected and not left
        sys.stdout.write(f"{count + 1}/{options.moments} {'well' if is_well else 'not well'}: {what}\n")
        sys.stdout.flush()
        if not is_well:
            sys.stdout.write("\n".join(left) + ("" if answer == expected else f"\n{answer}") + "\n")
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
