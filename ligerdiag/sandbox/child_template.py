"""Serves as the template of the sandboxed process in a template server (see `workers.template_server`). It does the
imports once and forks the processes, which then give up their rights. Started as `python -m
ligerdiag.sandbox.child_template`.

It reads no file of unknown origin, and has done nothing that a process of its own would not do. Its forks share its
random addresses of memory, unlike processes of their own; so a run has forks only where a server was started on
purpose.
"""

import importlib
import socket

from ligerdiag.sandbox.child import answer_over
from ligerdiag.workers.loop import Answerer, serve_work

_IMPORTED = (
    "ligerdiag.dumps.text_worker",
    "ligerdiag.inspection.module_inspection",
    "ligerdiag.replay.dump_replay",
)
"""Modules that the processes need, some of them only for numbers."""


def prepare() -> None:
    """Imports what each forked process needs."""
    for name in _IMPORTED:
        importlib.import_module(name)


def work(channel: socket.socket, other: Answerer | None) -> None:
    """Answers the questions that arrive on the socket, as a sandboxed process.

    other: not used.
    """
    del other
    answer_over(channel)


if __name__ == "__main__":
    serve_work(prepare, work)
