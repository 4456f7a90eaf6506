"""Runs `ligerdiag` as a command in a fork of a process that has imported it: imports are nine tenths of a short
command.

It uses Python's own server of forks, one for each calling process. Before its first fork the server imports
`command_imports`, which includes neither JAX nor Triton, as in any process of the command line. A command gets its
arguments, folder, environment and streams, and no interactive input; it returns its exit code. Anything that Python
reads from the environment while it starts or imports ligerdiag keeps the value from the start of the server. A test of
that, of signals, or of the fate of processes starts a real process: `running.run_process`.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.running import Outcome

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tools.command_imports"])


def run_warm_command(
    words: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout: float = 1200
) -> Outcome:
    """Runs `ligerdiag WORDS` until it ends, in whatever way. Raises TimeoutExpired."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = _CONTEXT.Process(target=_run, args=(tuple(words), str(cwd), dict(environment), str(out), str(err)))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, timeout)
        code = process.exitcode
        assert code is not None
        return Outcome(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _run(words: tuple[str, ...], cwd: str, environment: Mapping[str, str], out: str, err: str) -> None:
    for descriptor, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["ligerdiag", *words]
    from ligerdiag.cli.main import main

    main()
