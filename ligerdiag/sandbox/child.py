"""Child side: `python -m ligerdiag.sandbox.child` looks at one module after another, for its parent.

1. It gives up what it can before it imports anything that reads a file, see below.
2. It writes to the folder that it stands in and nowhere else. So nothing that it works out is kept: it reads what kernels
   do from the cache, and what it adds is its own and goes with it.
3. Questions come on stdin, answers go into files; to what was stdout goes one line for each. What a library prints, up to
   the message of an abort, goes to stderr, a file of the parent's.
4. It ends with its parent (see `ending`).
Messages between ligerdiag and this process are JSON records, each checked on arrival.

Landlock: a process gives up, for good and for all that it starts, to change any file but those below one folder.

1. The kernel of Linux 5.13 and later may offer it to any process; which rights there are to give up depends on its version
   (`linux/landlock.h`). Reading is not given up. A file that was open before stays writable.
2. From version 6 on, no process outside can be sent a signal, either.
3. Nothing of it can be undone, not by root either: a mount namespace, which root could mount anew, is no such thing.
4. What can still be changed of a file elsewhere is its mode and its times.

The rights that a sandboxed process gives up before it reads anything, by means of the kernel.

1. Limits of resources: no core file, few open files, no endless files. Memory and time are limited module by module (see
   `dumps.content`); a process that does not end itself in time is killed (`limit_processor`).
2. A network namespace of its own, in which there is no network. An ordinary user needs a user namespace for it, which some
   kernels refuse: what is refused is said, and the process goes on without.
3. The right to change files, but for one folder.
4. When memory runs out, the operating system is told to take this process and not its parent.

This has to run before the process has a second thread.
"""

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ligerdiag.codec import encode_record
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.ending import end_group_with_parent
from ligerdiag.inspection.module import InspectionRequest
from ligerdiag.untrusted_files import SANDBOX_FILE_BYTES, SANDBOX_OPEN_FILES, SANDBOX_SPARE_SECONDS

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls, the same on all architectures."""
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE = 1 << 1
_CHANGES = (
    (
        1,
        _WRITE_FILE | sum(1 << bit for bit in range(4, 13)),
    ),  # remove and make: folders, files, sockets, links, devices
    (2, 1 << 13),  # move from one folder to another
    (3, 1 << 14),  # truncate
)
"""Since which version, and the rights to change files."""
_SIGNALS_SINCE, _SIGNALS = 6, 1 << 1


def deny_changes(folder: Path) -> None:
    """From now on this thread and what it starts change no file but below the folder; OSError where that cannot be.

    `/dev/null` can be written to, too.
    """
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has no Landlock")
    library = ctypes.CDLL(None, use_errno=True)
    version = find_version(library)
    changes = sum(rights for since, rights in _CHANGES if since <= version)
    fields = [changes]
    if version >= _SIGNALS_SINCE:
        fields += [0, _SIGNALS]
    rules = _call(library, _CREATE_RULESET, struct.pack(f"={len(fields)}Q", *fields), 8 * len(fields), 0)
    try:
        _allow(library, rules, folder, changes)
        _allow(library, rules, Path(os.devnull), _WRITE_FILE)
        if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise _make_error()
        _call(library, _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def find_version(library: ctypes.CDLL) -> int:
    """What the kernel offers; OSError where that is nothing. library: of C."""
    return _call(library, _CREATE_RULESET, None, 0, _ASK_VERSION)


def _allow(library: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(library, _ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(library: ctypes.CDLL, number: int, *arguments: object) -> int:
    """The system call's result; OSError where it has none."""
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(library.syscall(ctypes.c_long(number), *wide))
    if result < 0:
        raise _make_error()
    return result


def _make_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


_OOM_SCORE = "800"


def confine(folder: Path) -> tuple[str, ...]:
    """Gives up what is not needed; returns one line for each thing that the kernel would not take.

    folder: the only one that may still be written to.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, SANDBOX_FILE_BYTES)
    _limit(resource.RLIMIT_NOFILE, SANDBOX_OPEN_FILES)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
    refused: list[str] = []
    for give_up, what in ((_leave_network, "the network"), (lambda: deny_changes(folder), "writing to your files")):
        try:
            give_up()
        except OSError as error:
            reason = error.strerror or error
            refused.append(f"the process that reads files could not give up {what}: {reason}")
    return tuple(refused)


def limit_processor(seconds: float) -> None:
    """From now on this process gets so much of a processor, and some to spare, before the kernel kills it by SIGVTALRM.

    A timer and no RLIMIT_CPU: what this process starts, such as a parser that stays for the next modules, has a time of
    its own and would inherit the limit.
    """
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds + SANDBOX_SPARE_SECONDS)


def _limit(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (limit, limit))


def _leave_network() -> None:
    """Raises OSError where the kernel does not allow it."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:  # root stays root, and can read what it could read
        os.unshare(os.CLONE_NEWNET)
        return
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The first line to the process: what holds for all that it will be asked."""

    request: InspectionRequest
    cache: Path
    """Root of the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Its first line back, once its imports are done."""

    refused: tuple[str, ...]
    """Limits that the kernel refused, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One module, or one artifact."""

    answer: Path
    """The file that the process writes its ModuleOutcome to."""
    subject: ModuleFiles | Path
    """A module's files, or an artifact's directory; their paths are absolute."""
    replay_seconds: float = 0.0
    """Of a processor, for the replay that the last answer, about the same module, leaves to be done; 0: judge it."""
    is_count: bool = False
    """The subject is a file of which no more is asked than how many modules it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The answer is written."""

    answer: Path


def render_message(record: object) -> str:
    return json.dumps(encode_record(record)) + "\n"


def main() -> None:
    """Answers questions until stdin closes."""
    refused = confine(Path.cwd())
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    end_group_with_parent(questions.fileno())
    _answer(questions, answers, refused)


def _answer(questions: TextIO, answers: TextIO, refused: tuple[str, ...]) -> None:
    from ligerdiag.artifacts.cache import Cache
    from ligerdiag.codec import parse_record
    from ligerdiag.dumps.content import compute_seconds
    from ligerdiag.dumps.text_worker import Translator
    from ligerdiag.inspection.module import ModuleInspector, compute_budget_seconds
    from ligerdiag.sandbox.child import Done, Question, Ready, Setup, render_message

    def say(record: object) -> None:
        answers.write(render_message(record))
        answers.flush()

    say(Ready(refused=refused))
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
            elif question.replay_seconds:
                outcome = inspector.replay(question.subject, question.replay_seconds)
            elif isinstance(question.subject, Path):
                outcome = inspector.inspect_artifact(question.subject)
            else:
                outcome = inspector.inspect_module(question.subject)
            question.answer.write_text(render_message(outcome), encoding="ascii")
            say(Done(answer=question.answer))


def lend_entries(known: Path, own: Path) -> None:
    """Makes the own folder, in which what is known so far is found too; what is written goes to the own folder alone."""
    from ligerdiag.effects.isolated import LENT

    own.mkdir()
    (own / LENT).symlink_to(known.absolute())


if __name__ == "__main__":
    sys.exit(main())
