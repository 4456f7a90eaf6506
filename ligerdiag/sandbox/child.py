"""The sandboxed process, `python -m ligerdiag.sandbox.child`, which inspects one HLO module after another for its
parent.

Before it reads a file, and in a process of its own before it imports anything that reads one, it gives up

- resources: no core file, few open files, bounded file sizes. Memory and time are limited per module (see
  `dumps.content`); a process that does not stop itself in time is killed (`limit_processor`);
- the network: it enters an empty network namespace. For an ordinary user this needs a user namespace, which some
  kernels refuse: the process reports that and continues;
- changing files outside of one folder, and opening devices (see `landlock`);
- all capabilities, including those that the user namespace gave (see `_drop_capabilities`);
- system calls that reading does not need (see `seccomp`).

If memory runs out, the operating system kills this process before its parent. All of this must happen before the
process has a second thread.

The process writes only to its working directory, so it caches nothing for others: it reads kernels' effects from the
cache, and the effects that it adds disappear with its folder. Questions come on stdin, answers go into files; a line on
the original stdout reports that an answer is in its file. The output of libraries, including the message of an abort,
goes to stderr, a file of the parent's. The process ends with its parent (see `ending`). Messages between ligerdiag and
this process are JSON records, each validated on arrival.

Where a template server runs (`workers.template_server`), as in the tests, the process is instead forked from a template
that has done the imports and reads nothing. It gives up the same rights, before the first question. A user's own runs
have no such server.
"""

import ctypes
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ligerdiag.codec import encode_record
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.ending import die_with_parent, end_group_with_parent
from ligerdiag.inspection.module_inspection import InspectionRequest
from ligerdiag.sandbox.landlock import NO_NEW_PRIVILEGES, deny_changes, make_error
from ligerdiag.sandbox.seccomp import deny_calls
from ligerdiag.untrusted_files import SANDBOX_FILE_BYTES, SANDBOX_OPEN_FILES, SANDBOX_SPARE_SECONDS

SHARED_TEMPLATES = "LIGERDIAG_TEMPLATES"
"""Name of the environment variable that has the path of a template server's socket, see `workers.template_server`."""
_OOM_SCORE = "800"
_BOUNDING_READ, _BOUNDING_DROP = 23, 24  # linux/prctl.h
_AMBIENT, _AMBIENT_CLEAR = 47, 4
_CAPABILITY_VERSION = 0x20080522  # linux/capability.h
_MOST_CAPABILITIES = 64
_CAPABILITY_SETS = re.compile(r"^Cap(?:Inh|Prm|Eff|Amb):\s*(\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Says which rights the sandboxed process has given up, and which it could not give up."""

    active: tuple[str, ...]
    """Name of each protection that is active, such as `no network`."""
    refused: tuple[str, ...]
    """One line for each protection that the operating system refused, with the reason."""


def confine(folder: Path) -> Confinement:
    """Gives up this process's rights permanently. Returns the rights that it has given up and those that it could not.

    folder: the only folder to which the process may still write.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, SANDBOX_FILE_BYTES)
    _limit(resource.RLIMIT_NOFILE, SANDBOX_OPEN_FILES)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
    os.environ.pop(SHARED_TEMPLATES, None)  # a template server forks its workers outside of the sandbox
    steps: tuple[tuple[Callable[[], object], str, str], ...] = (
        (_leave_network, "the right to use the network", "no network"),
        (lambda: deny_changes(folder), "the right to write to your files", "Landlock {}"),
        (_drop_capabilities, "its Linux capabilities", "no capabilities"),
        (deny_calls, "the right to make system calls that it does not need", "a filter of system calls"),
    )
    active, refused = list[str](), list[str]()
    for give_up, what, name in steps:
        try:
            active.append(name.format(give_up()))
        except OSError as error:
            reason = error.strerror or error
            refused.append(f"the process that reads files could not give up {what}: {reason}")
    return Confinement(active=tuple(active), refused=tuple(refused))


def limit_processor(seconds: float) -> None:
    """Makes the kernel kill this process by SIGVTALRM once it has used this much processor time, in seconds, plus a
    margin.

    This is a timer and not RLIMIT_CPU, because child processes, which have their own time, would inherit such a limit.
    """
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds + SANDBOX_SPARE_SECONDS)


def _limit(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (limit, limit))


def _leave_network() -> None:
    """Moves this process into an empty network namespace. Raises OSError if the kernel does not allow that."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:  # root stays root, and can read what it could read
        os.unshare(os.CLONE_NEWNET)
        return
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _drop_capabilities() -> None:
    """Drops all Linux capabilities of this process and its children: the rights of root, or, inside a user namespace,
    those of its creator. Raises OSError if that is impossible.

    All capabilities leave each set: ambient, bounding, inheritable, permitted and effective. Root is then an ordinary
    user who owns root's files; it reads other users' files only if their mode lets everybody. Reducing the bounding set
    needs CAP_SETPCAP. A process without it has no capabilities to lose, and `no_new_privs`, which every process here
    has, keeps a privileged program from giving it any.
    """
    if sys.platform != "linux":
        raise OSError(f"Linux capabilities do not exist on {sys.platform}")
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise make_error()
    library.prctl(_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)  # fails before Linux 4.3, which has no ambient capabilities
    for number in range(_MOST_CAPABILITIES):
        if library.prctl(_BOUNDING_READ, number, 0, 0, 0) == 1:
            library.prctl(_BOUNDING_DROP, number, 0, 0, 0)
    header, none = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    if library.capset(header, none):
        raise make_error()
    left = _CAPABILITY_SETS.findall(Path("/proc/self/status").read_text(encoding="ascii"))
    if any(int(one, 16) for one in left):
        raise OSError("the process still has some Linux capabilities")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The first line that the parent sends to the sandboxed process: settings for all questions."""

    request: InspectionRequest
    cache: Path
    """Root folder of the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first line that the sandboxed process sends to its parent: it is ready."""

    confinement: Confinement


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request of the parent to inspect or replay one module of a dump, or one artifact."""

    answer: Path
    """Path of the file to which the process writes the answer, a ModuleOutcome."""
    subject: ModuleFiles | Path
    """The files of a module, or the directory of an artifact; paths are absolute."""
    replay_seconds: float = 0.0
    """If positive, the process is to replay the subject, which it judged last, within these seconds of processor time; if 0,
    it is to judge the subject.
    """
    is_opaque: bool = False
    """Whether the replay is to use opaque functions instead of custom calls."""
    is_count: bool = False
    """Whether the request is only to count the modules of the file `subject`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A line that the sandboxed process sends to its parent: the answer to a question is in its file."""

    answer: Path


def render_message(record: object) -> str:
    return json.dumps(encode_record(record)) + "\n"


def main() -> None:
    """Gives up the process's rights, and then answers questions until stdin closes."""
    parent = os.getppid()
    confinement = confine(Path.cwd())
    die_with_parent(parent)  # again: the kernel drops this setting when a process changes its rights
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    end_group_with_parent(questions.fileno())
    _answer(questions, answers, confinement)


def answer_over(channel: socket.socket) -> None:
    """Gives up the rights of this process, which has just been forked. Then answers the questions that arrive on the
    socket, until it closes.
    """
    template = os.getppid()
    confinement = confine(Path.cwd())
    die_with_parent(template)
    end_group_with_parent(channel.fileno())
    with channel.makefile(encoding="utf-8") as questions, channel.makefile("w", encoding="utf-8") as answers:
        _answer(questions, answers, confinement)


def _answer(questions: TextIO, answers: TextIO, confinement: Confinement) -> None:
    from ligerdiag.artifacts.cache import Cache
    from ligerdiag.codec import parse_record
    from ligerdiag.dumps.content import compute_seconds
    from ligerdiag.dumps.text_worker import Translator
    from ligerdiag.inspection.module_inspection import ModuleInspector, compute_budget_seconds
    from ligerdiag.sandbox.child import Done, Question, Ready, Setup, render_message

    def say(record: object) -> None:
        answers.write(render_message(record))
        answers.flush()

    say(Ready(confinement=confinement))
    setup = parse_record(Setup, questions.readline())
    cache = Cache(Path("cache"))
    effects = cache.root / "effects"
    lend_entries(setup.cache / "effects", effects)
    with Translator(cache=cache, timeout=setup.request.timeout) as translator:
        inspector = ModuleInspector(request=setup.request, translate=translator.translate, effects_cache=effects)
        for line in questions:
            question = parse_record(Question, line)
            budget = (
                compute_seconds((question.subject,))
                if question.is_count and isinstance(question.subject, Path)
                else question.replay_seconds or compute_budget_seconds(setup.request, question.subject)
            )
            limit_processor(budget)
            if question.is_count and isinstance(question.subject, Path):
                outcome = inspector.count_modules(question.subject)
            elif question.replay_seconds and question.is_opaque:
                outcome = inspector.replay_opaquely(question.subject, question.replay_seconds)
            elif question.replay_seconds:
                outcome = inspector.replay(question.subject, question.replay_seconds)
            elif isinstance(question.subject, Path):
                outcome = inspector.inspect_artifact(question.subject)
            else:
                outcome = inspector.inspect_module(question.subject)
            question.answer.write_text(render_message(outcome), encoding="ascii")
            say(Done(answer=question.answer))


def lend_entries(known: Path, own: Path) -> None:
    """Makes the only folder to which the process writes kernels' effects. A link in the folder lets the process also
    read the entries in the cache.

    known: folder of the entries in the cache. own: path of the folder to make.
    """
    from ligerdiag.effects.isolated import LENT

    own.mkdir()
    (own / LENT).symlink_to(known.absolute())


if __name__ == "__main__":
    sys.exit(main())
