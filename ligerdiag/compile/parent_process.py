"""Ends a process of ours with the one that started it, however that one ended.

1. A process that starts no others is killed by the kernel of the operating system, whatever it is doing
   (`die_with_parent`). The thread that started it counts; those of a pool live as long as the pool.
2. A process that runs a user's code may have started any others. It ends with its process group when the pipe from its
   parent hangs up, at the latest a second after the parent is gone: a copy of the pipe's end may be in another process
   (`end_group_with_parent`).
3. A process that will fork must have no second thread then: it is watched only during its imports (`watch_parent`).
"""

import ctypes
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_MILLISECONDS = 1000


def die_with_parent(parent: int) -> None:
    """Has this process killed when its parent ends; ends it now where that is so already. parent: the process id."""
    with suppress(OSError, AttributeError):  # not on Linux: the caller of this follows its parent, too
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def end_group_with_parent(pipe: int) -> None:
    """Watches, in a thread, the end of a pipe that the parent writes to; ends the process group when it hangs up."""
    threading.Thread(target=_watch, args=(pipe, os.getppid()), daemon=True).start()


def watch_parent() -> Callable[[], None]:
    """Ends this process and its group soon after its parent; returns what stops the watch and waits until it has."""
    parent, is_over = os.getppid(), threading.Event()

    def watch() -> None:
        while not is_over.wait(1.0):
            if os.getppid() != parent:
                _end_group()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()

    def stop() -> None:
        is_over.set()
        thread.join()

    return stop


def _watch(pipe: int, parent: int) -> None:
    poll = select.poll()
    poll.register(pipe, 0)  # only that it hangs up, not that there is something to read
    while os.getppid() == parent and not poll.poll(_MILLISECONDS):
        pass
    _end_group()


def _end_group() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
