"""Ends a run early, by Ctrl-C, SIGTERM or its time limit, and ends ligerdiag's processes together with their parent.

While a run works (`work_until_ended`), the first of the three events raises RunEnded, a KeyboardInterrupt, in the main
thread. The run stops waiting and keeps its results. After such an event, or when the work is complete, the report is
made and written; meanwhile further signals have no effect, except a second Ctrl-C, which raises KeyboardInterrupt.
Before the work there are no results to keep, so Ctrl-C and SIGTERM have their usual effect. A block of work inside
another one is part of it: an event that ends the inner block ends the outer one, too. Without `watch_for_end`, as in a
program that calls ligerdiag, that program's signal handlers stay in place.
"""

import ctypes
import os
import select
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from enum import StrEnum

from ligerdiag.errors import LigerdiagError

_PR_SET_PDEATHSIG = 1
_MILLISECONDS = 1000


def die_with_parent(parent: int) -> None:
    """Makes the operating system kill this process when its parent ends.

    If the parent has ended already, ends this process now. parent: the parent's process id. Use it in a process that
    starts no other processes. This process also ends when the thread of the parent that started it ends.
    """
    with suppress(OSError, AttributeError):  # not on Linux: there, the caller watches the parent itself
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def end_group_with_parent(pipe: int) -> None:
    """Starts a thread that ends this process and its process group when the parent ends.

    The thread notices that the parent closes its end of the pipe. pipe: the descriptor of this process's end. Use it in a
    process that runs a user's code. Such code may start processes that keep the parent's end of the pipe open, so the
    thread also checks whether the parent still exists.
    """
    threading.Thread(target=_watch, args=(pipe, os.getppid()), daemon=True).start()


def watch_parent() -> Callable[[], None]:
    """Starts a thread that ends this process and its process group soon after the parent has ended.

    Returns a function that stops the thread and waits until it has stopped. Use it in a process that first imports
    modules and then forks: such a process must have only one thread at the fork.
    """
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
    poll.register(pipe, 0)  # reports only that the pipe hangs up, not that there is something to read
    while os.getppid() == parent and not poll.poll(_MILLISECONDS):
        pass
    _end_group()


def _end_group() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


class Ending(StrEnum):
    """The event that ended a run early."""

    INTERRUPT = "Ctrl-C"
    TERMINATE = "SIGTERM"
    TIME_LIMIT = "the time limit"
    EXIT_FIRST = "--exitfirst"
    """A case was not as expected, and the user asked to stop at the first such case."""


class RunEnded(KeyboardInterrupt):
    """Raised in the main thread to end a run early. `ending` is the event that ended it."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.value)
        self.ending = ending


class Work:
    """How the work of a run ended: complete, or early because of an event."""

    def __init__(self) -> None:
        self.ending: Ending | None = None
        """The event that ended the work early; None if the work is complete."""


class EndWatch:
    """The handler of the signals that can end one run."""

    def __init__(self) -> None:
        self.is_over_time = False
        self.missed: Ending | None = None
        """The first event that came while no work was under way, and so ended nothing."""
        self._process = os.getpid()
        self.is_working = False
        self._is_finishing = False
        self._interrupts = 0

    def begin(self, *, again: bool = False) -> None:
        """Marks the beginning of the run's work. From now on Ctrl-C, SIGTERM and the time limit end the work early.

        again: whether they also end this work if the run has already completed other work.
        """
        self.is_working = True
        if again:
            self._is_finishing = False

    def finish(self) -> None:
        self.is_working, self._is_finishing = False, True

    def handle(self, number: int, frame: object) -> None:
        """Handles SIGINT and SIGTERM. When the time is up, a timer sends SIGTERM, too."""
        del frame
        if os.getpid() != self._process:  # this process is a forked child that runs no program of its own
            _die_of(number)
            return
        self._interrupts += number == signal.SIGINT
        if self._is_finishing:
            if self._interrupts > 1:
                raise KeyboardInterrupt
            self.missed = self.missed or self._find_ending(number)
            return
        if self.is_working:
            self.finish()
            raise RunEnded(self._find_ending(number))
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.is_over_time:
            raise LigerdiagError("the time limit was reached before anything was checked")
        _die_of(number)

    def _find_ending(self, number: int) -> Ending:
        if number == signal.SIGINT:
            return Ending.INTERRUPT
        return Ending.TIME_LIMIT if self.is_over_time else Ending.TERMINATE


_watches: list[EndWatch] = []


@contextmanager
def watch_for_end(time_limit: float | None = None) -> Generator[EndWatch]:
    """Handles Ctrl-C, SIGTERM and the time limit inside the `with` block: they end the work of the run.

    The work is the code inside `work_until_ended`. The report is still written after it. Yields the object that handles
    these events. Does nothing outside the main thread, since only the main thread gets signals. time_limit: seconds from
    now.
    """
    if threading.current_thread() is not threading.main_thread():
        yield EndWatch()
        return
    watch = EndWatch()
    before = {number: signal.signal(number, watch.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    timer = None if time_limit is None else threading.Timer(time_limit, _ring, (watch,))
    if timer is not None:
        timer.daemon = True
        timer.start()
    _watches.append(watch)
    try:
        yield watch
    finally:
        if timer is not None:
            timer.cancel()
        _watches.remove(watch)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def work_until_ended(*, again: bool = False) -> Generator[Work]:
    """Runs the `with` block until it is complete, or until Ctrl-C, SIGTERM or the time limit ends it.

    Such an event raises no error outside of the block. The yielded `Work` has the event that ended the block, if any.

    again: whether an event ends this block even after an earlier block of the run is complete and its results are
    written.
    """
    work = Work()
    watch = _watches[-1] if _watches else None
    is_part = watch is not None and watch.is_working
    try:
        try:
            if watch is not None and not is_part:
                watch.begin(again=again)
            yield work
        finally:
            if watch is not None and not is_part:
                watch.finish()
    except KeyboardInterrupt as end:
        work.ending = end.ending if isinstance(end, RunEnded) else Ending.INTERRUPT


def _ring(watch: EndWatch) -> None:
    """Interrupts the main thread, whatever the thread waits for; runs in the timer's thread."""
    main = threading.main_thread().ident
    if main is not None:
        watch.is_over_time = True
        signal.pthread_kill(main, signal.SIGTERM)


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
