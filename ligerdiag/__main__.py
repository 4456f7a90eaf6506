"""Runs the command `ligerdiag`, also as `python -m ligerdiag` if the command is not on PATH.

Ctrl-C during the command's imports ends the command as a later Ctrl-C does: with exit code 130 and without a traceback. No
case has been checked by then, so there are no results to save.
"""

import os
import signal
from types import FrameType

_INTERRUPTED = 130
"""The value of `cli.exit_codes.ExitCode.INTERRUPTED`, which is not imported yet."""


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends the process at once on a signal. Raises no exception, because an exception must not reach a module that is
    being imported.
    """
    del number, frame
    os.write(2, b"interrupted\n")
    os._exit(_INTERRUPTED)


def main() -> None:
    """Runs the command line; see `cli.main`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise the process has its own handler
        signal.signal(signal.SIGINT, _leave)
    from ligerdiag.cache_root import find_cache_root, keep_own_bytecode
    from ligerdiag.garbage import collect_rarely

    collect_rarely()
    keep_own_bytecode(find_cache_root())
    from ligerdiag.cli.main import main as run

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
