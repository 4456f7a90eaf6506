"""Has a sandboxed process inspect HLO modules, so that a crash costs only one module. This is the code of the parent.

One process inspects all modules as long as it behaves. After it dies, or exceeds its memory or time, the next module
gets a new process. A module that ends the process counts as one that could not be analysed, with the reason; other
modules are unaffected. Each process has its own folder, for its answers and everything else that it writes, which is
deleted with it. Nothing that the process says is trusted: each answer is validated against its type (`codec`). The
replay of a module is a separate question after its judgement, so the judgement is kept even if the process dies during
the replay.
"""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import IO, Self

from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.codec import FieldError, parse_record
from ligerdiag.dumps.content import compute_seconds
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.errors import ArtifactError, LigerdiagError
from ligerdiag.inspection.module_inspection import (
    InspectionRequest,
    ModuleOutcome,
    compute_budget_seconds,
    describe_artifact,
    describe_module,
)
from ligerdiag.model.findings import OpaqueReplay, Replay, ReplayState
from ligerdiag.model.report import refuse
from ligerdiag.sandbox.child import Confinement, Done, Question, Ready, Setup, render_message
from ligerdiag.toolchains.toolchain import describe_interpreter, worker_environment
from ligerdiag.untrusted_files import SANDBOX_ANSWER_BYTES, WALL_FACTOR, WALL_SECONDS, read_untrusted
from ligerdiag.workers.templates import TemplateKind, fork_from_server

CHILD = "ligerdiag.sandbox.child"
TEMPLATE = "ligerdiag.sandbox.child_template"
"""The module of the process from which a template server forks sandboxed processes."""
START_SECONDS = 180.0
"""The most wall-clock seconds that a sandboxed process may take for its imports."""
_BEGIN = """
import sys
from ligerdiag.ending import die_with_parent
die_with_parent(int(sys.argv[1]))
import runpy
runpy.run_module(sys.argv[2], run_name="__main__", alter_sys=True)
"""
"""The program of the sandboxed process. It first ties its life to the parent's, because the parent may end during the
imports, which take a second.
"""
_LINE_BYTES = 1 << 20
_LOG_BYTES = 4 << 10


class ChildEnded(Exception):
    """The sandboxed process died, was killed, or gave an answer that is not valid. The message says which."""


class SandboxedInspector:
    """Inspects one module after another in a sandboxed process. If the process dies, a new one replaces it. A context
    manager.
    """

    def __init__(self, request: InspectionRequest, *, cache: Cache) -> None:
        self._setup = Setup(request=request, cache=cache.root)
        self._scratch: ScratchFolder | None = None
        self._child: _Child | None = None
        self.confinement = Confinement(active=(), refused=())
        """The rights that the sandboxed process has given up; known after the first answer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    @property
    def _folder(self) -> Path:
        if self._scratch is None:
            self._scratch = ScratchFolder()
        return self._scratch.path

    def describe(self) -> tuple[str, ...]:
        """Returns one line that lists the active protections, and one line for each protection that the operating
        system refused.
        """
        active = self.confinement.active
        protected = (f"the process that reads files is confined: {', '.join(active)}",) if active else ()
        return (*protected, *self.confinement.refused)

    def start(self) -> None:
        """Starts the sandboxed process unless it runs already. Does not wait for the imports of the process. Raises
        LigerdiagError if the process cannot be started.
        """
        if self._child is None:
            try:
                folder = Path(tempfile.mkdtemp(dir=self._folder))
                self._child = _Child(folder, worker_environment(describe_interpreter(), folder / "cache"))
            except OSError as error:
                raise LigerdiagError(f"cannot start a process of `{sys.executable}`: {error}") from error

    def count_modules(self, path: Path) -> int | None:
        """Returns the number of modules in a file. Returns None if counting takes too much time or memory, or kills the
        process.
        """
        try:
            outcome = self._ask(path.absolute(), is_count=True)
        except ChildEnded:
            return None
        return None if outcome.is_over_budget else outcome.modules

    def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
        """Analyses one module of a dump in the sandboxed process and returns the outcome. If the analysis fails or the
        process dies, nothing is raised: the outcome says why.
        """
        identity = describe_module(files)
        try:
            outcome = self._ask(_make_absolute(files))
        except ChildEnded as end:
            return ModuleOutcome(judged=refuse(identity, _explain(files.id, end)))
        return _rename(outcome, artifact=identity.artifact)

    def inspect_artifact(self, directory: Path) -> ModuleOutcome:
        """Analyses one artifact in the sandboxed process and returns the outcome. If the analysis fails or the process
        dies, nothing is raised: the outcome says why.
        """
        identity, absolute = describe_artifact(directory), directory.absolute()
        try:
            outcome = self._ask(absolute)
        except ChildEnded as end:
            return ModuleOutcome(judged=refuse(identity, _explain(str(directory), end)))
        if outcome.judged is not None and outcome.judged.identity.id == str(absolute):
            outcome = _rename(outcome, id=identity.id)
        return _rename(outcome, artifact=identity.artifact)

    def replay(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Replays the module or artifact that was inspected last, and returns the record. If the replay fails or the
        process dies, nothing is raised: the record says why.

        seconds: the most processor time.
        """
        name = subject.id if isinstance(subject, ModuleFiles) else str(subject)
        absolute = _make_absolute(subject) if isinstance(subject, ModuleFiles) else subject.absolute()
        try:
            return self._ask(absolute, replay_seconds=seconds)
        except ChildEnded as end:
            reason = f"the process that replayed `{name}` {end}"
            return ModuleOutcome(replay=Replay(state=ReplayState.FAILED, reason=reason))

    def replay_opaquely(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Replays the module or artifact that was inspected last, with opaque functions in place of its custom calls.
        An opaque function is a stand-in that reads and writes the same buffers. See `replay`.
        """
        name = subject.id if isinstance(subject, ModuleFiles) else str(subject)
        absolute = _make_absolute(subject) if isinstance(subject, ModuleFiles) else subject.absolute()
        try:
            return self._ask(absolute, replay_seconds=seconds, is_opaque=True)
        except ChildEnded as end:
            reason = f"the process that replayed `{name}` {end}"
            return ModuleOutcome(opaque=OpaqueReplay(state=ReplayState.FAILED, reason=reason))

    def _ask(
        self,
        subject: ModuleFiles | Path,
        *,
        replay_seconds: float = 0.0,
        is_opaque: bool = False,
        is_count: bool = False,
    ) -> ModuleOutcome:
        is_fresh = self._child is None or not self._child.is_ready
        self.start()
        assert self._child is not None
        try:
            if is_fresh:
                self.confinement = self._child.wait_until_ready(self._setup)
            if is_count and isinstance(subject, Path):
                processor = compute_seconds((subject,))
            else:
                processor = replay_seconds or compute_budget_seconds(self._setup.request, subject)
            seconds = WALL_SECONDS + WALL_FACTOR * processor
            question = Question(
                answer=self._child.folder / "answer.json",
                subject=subject,
                replay_seconds=replay_seconds,
                is_opaque=is_opaque,
                is_count=is_count,
            )
            outcome = self._child.ask(question, seconds)
        except BaseException:
            self._drop()
            raise
        if outcome.is_over_budget:
            self._drop()
        return outcome

    def _drop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    """One sandboxed process, with its own folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        """Starts the process. folder: the process's own, which is deleted when the process ends."""
        self.folder = folder
        self.is_ready = False
        self._log = folder / "log.txt"
        self._buffer = b""
        environment = environment | {"TMPDIR": str(folder)}
        kind = TemplateKind(python=sys.executable, module=TEMPLATE, environment=environment)
        forked = fork_from_server(kind, TEMPLATE, self._log)
        if forked is not None:
            self._process, channel, self._buffer = forked.hand_over()
            self._questions: IO[bytes] = channel.makefile("wb")
            self._answers: IO[bytes] = channel.makefile("rb")
            channel.close()  # the two files keep it open
            return
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BEGIN, str(os.getpid()), CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._questions, self._answers = process, process.stdin, process.stdout

    def wait_until_ready(self, setup: Setup) -> Confinement:
        """Waits until the process is ready and sends it the settings for all questions. Returns the rights that the
        process has given up. Raises ChildEnded if the process ends.
        """
        ready = self._read(Ready, START_SECONDS)
        self._send(setup)
        self.is_ready = True
        return ready.confinement

    def ask(self, question: Question, seconds: float) -> ModuleOutcome:
        """Returns the process's answer to the question. Raises ChildEnded if there is no valid answer within this many
        wall-clock seconds.
        """
        self._send(question)
        self._read(Done, seconds)
        try:
            data = read_untrusted(question.answer, SANDBOX_ANSWER_BYTES, follow=False)
            question.answer.unlink()
            return parse_record(ModuleOutcome, data)
        except (ArtifactError, OSError, FieldError) as error:
            raise ChildEnded(f"gave an answer that cannot be read: {error}") from error

    def end(self) -> None:
        """Ends the process and everything that it started, waits until it is gone, and deletes its folder."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._questions, self._answers):
            with suppress(OSError):
                pipe.close()
        rmtree(self.folder, ignore_errors=True)

    def _send(self, record: object) -> None:
        try:
            self._questions.write(render_message(record).encode())
            self._questions.flush()
        except OSError as error:
            raise self._make_end() from error

    def _read[A](self, kind: type[A], seconds: float) -> A:
        file, end = self._answers.fileno(), monotonic() + seconds
        while b"\n" not in self._buffer:
            remaining = end - monotonic()
            if remaining <= 0 or not wait([file], remaining):
                raise ChildEnded(f"did not answer within {seconds:.0f} s of wall-clock time and was ended")
            block = os.read(file, 1 << 16)
            if not block:
                raise self._make_end()
            self._buffer += block
            if len(self._buffer) > _LINE_BYTES:
                raise ChildEnded(f"gave an answer of more than {_LINE_BYTES} bytes")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return parse_record(kind, line)
        except FieldError as error:
            raise ChildEnded(f"gave an answer that cannot be read: {error}") from error

    def _make_end(self) -> ChildEnded:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return ChildEnded("closed its output but did not end")
        if code >= 0:
            said = self._read_last_line()
            return ChildEnded(f"ended with exit code {code}" + (f": {said}" if said else ""))
        return ChildEnded(_describe_signal(-code))

    def _read_last_line(self) -> str:
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - _LOG_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


def _rename(outcome: ModuleOutcome, **names: str) -> ModuleOutcome:
    """Returns the outcome with these fields of its identity replaced by names as the user wrote them: the process knows
    only absolute paths. names: field of the identity, `id` or `artifact`, to its value.
    """
    if outcome.judged is None:
        return outcome
    return replace(outcome, judged=replace(outcome.judged, identity=replace(outcome.judged.identity, **names)))


def _make_absolute(files: ModuleFiles) -> ModuleFiles:
    """Returns the files with absolute paths, because the sandboxed process has another working directory."""
    optimized, program, buffers, arguments = (
        tuple(path.absolute() for path in paths)
        for paths in (files.optimized, files.program, files.buffers, files.arguments)
    )
    return replace(files, optimized=optimized, program=program, buffers=buffers, arguments=arguments)


def _describe_signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    match number:
        case signal.SIGKILL:
            why = ", perhaps out of memory"
        case signal.SIGVTALRM | signal.SIGXCPU:
            why = ": it exceeded its limit of processor time"
        case _:
            why = ""
    return f"was ended by signal {number} ({name}){why}"


def _explain(name: str, end: ChildEnded) -> ArtifactError:
    return ArtifactError(f"the process that analysed `{name}` {end}")
