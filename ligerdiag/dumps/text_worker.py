"""Converts HLO text to protobuf: the worker `python -m ligerdiag.dumps.text_worker`, with jaxlib's own parser, and its
parent.

The parser is private to jaxlib, aborts the process for some inputs and has no bounds, so it runs in its own process,
which starts with the first text. The schedule is kept: with `is_scheduled=true` the order of the lines becomes the
order of the protobuf's sequences.

A text omits the values of large constants: `constant({...})`. The parser would make arrays of zeros of such constants, of
any size. The parent replaces these constants by calls of a target of ligerdiag's own, and turns the calls in the protobuf
back into constants without a literal.
"""

import importlib
import json
import re
import signal
import traceback
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.codec import FieldError, Json, encode_record, read_record, read_str
from ligerdiag.dumps.content import has_entry
from ligerdiag.errors import ArtifactError, CompileError, LigerdiagError, read_message
from ligerdiag.hlo.xla_pb2 import HloModuleProto
from ligerdiag.missing_packages import describe_missing, is_missing
from ligerdiag.model.jobs import Job, Source, parse_answer, render_request
from ligerdiag.toolchains.toolchain import describe_interpreter
from ligerdiag.untrusted_files import (
    MAXIMUM_FILE_BYTES,
    MAXIMUM_TEXT_BYTES,
    TEXT_BASE_MEMORY_BYTES,
    TEXT_BASE_SECONDS,
    TEXT_MEMORY_PER_BYTE,
    TEXT_SECONDS_PER_BYTE,
    WALL_FACTOR,
    WALL_SECONDS,
    read_untrusted,
)
from ligerdiag.workers.loop import Answerer, serve
from ligerdiag.workers.pool import Pool
from ligerdiag.workers.templates import WorkerDied


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """A request to a text worker: convert a module from text to protobuf."""

    text: str
    """Path of a file with HLO text, UTF-8, not compressed."""
    proto: str
    """Path of the file to write: a serialized HloModuleProto."""
    seconds: float
    """Seconds of processor time that parsing may take."""


def make_text_job(request: TextRequest, name: str) -> Job[None]:
    """Returns the job for a text worker. The job is done when the worker has written the file with the protobuf.

    The worker limits its own processor time. The job's limit of wall-clock time is many times longer, because the
    machine may be busy. name: the name of the job in messages.
    """

    def parse(line: str) -> None:
        if read_str(parse_answer(line), "proto") != request.proto:
            raise FieldError("the worker's answer names a file that was not requested")

    return Job(
        source=Source(module="HLO text", root="/"),
        name=name,
        render=lambda log: render_request("text", encode_record(request), log),
        parse=parse,
        timeout=WALL_SECONDS + WALL_FACTOR * request.seconds,
    )


def parse_text_request(job: Json) -> TextRequest:
    return read_record(TextRequest, job, "request")


def render_text_answer(request: TextRequest) -> str:
    """Returns the worker's answer: a line that says that the requested protobuf is written."""
    return json.dumps({"answer": {"proto": request.proto}}) + "\n"


PARSER_MODULES = ("jaxlib._hlo", "jaxlib._jax")
"""Names of the modules in which versions of jaxlib keep the parser of HLO text."""
MAXIMUM_MESSAGE = 300


def prepare() -> Answerer:
    """Imports jaxlib, but not jax, and returns the function that answers requests."""
    parse = _find_parser()

    def answer(job: Json, log: Path) -> str:
        del log
        request = parse_text_request(job)
        text = read_untrusted(Path(request.text), MAXIMUM_TEXT_BYTES).decode("utf-8")
        try:
            with _end_after(request.seconds):
                proto: bytes = parse(text).as_serialized_hlo_module_proto()
        except MemoryError:
            raise
        except Exception as fault:
            traceback.print_exception(fault)
            raise CompileError(
                f"jaxlib cannot parse the module as HLO text: {read_message(fault)[:MAXIMUM_MESSAGE]}"
            ) from fault
        Path(request.proto).write_bytes(proto)
        return render_text_answer(request)

    return answer


@contextmanager
def _end_after(seconds: float) -> Generator[None]:
    """Lets the operating system end this process by SIGPROF if the block takes more processor time: Python cannot
    interrupt the parser, which is C++.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _find_parser() -> Callable[[str], Any]:
    for name in PARSER_MODULES:
        try:
            library: Any = importlib.import_module(name)
        except ImportError:
            continue
        parse = getattr(library, "hlo_module_from_text", None)
        if parse is not None:
            return parse
    raise CompileError("this jaxlib cannot parse HLO text: dump the protobuf, with `--xla_dump_hlo_as_proto`")


if __name__ == "__main__":
    serve(prepare, starts_nothing=True)


TEXT_WORKER = "ligerdiag.dumps.text_worker"


_ELIDED = re.compile(rb"\bconstant\(\{\.\.\.\}\)")
_ELIDED_OPERAND = re.compile(rb"[(,]\s*\w+\[[^\]()]*\](?:\{[^{}()]*\})?\s+constant\(\{\.\.\.\}\)")
"""Matches a constant without its value that is written as an operand, without a name; no compiler writes this."""
_ELIDED_TARGET = "ligerdiag_elided_constant"


def _hide_elided(data: bytes) -> tuple[bytes, int]:
    """Returns the text with calls of ligerdiag's own target in place of constants without values, and the number of
    these constants.
    """
    call = f'custom-call(), custom_call_target="{_ELIDED_TARGET}"'.encode()
    return _ELIDED.subn(call, data)


def _restore_elided(serialized: bytes) -> bytes:
    """Returns the module with constants in place of the calls that `_hide_elided` has put there.

    Their values are unknown, so each gets a backend config of its own: no two of them compare as equal.
    """
    module = HloModuleProto.FromString(serialized)
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.custom_call_target == _ELIDED_TARGET:
                instruction.opcode = "constant"
                instruction.ClearField("custom_call_target")
                instruction.backend_config = f"left out: {instruction.name}".encode()
    return module.SerializeToString()


class Translator:
    """Converts HLO text to protobuf with text workers. It is a context manager: the workers end with the block."""

    def __init__(self, *, cache: Cache, timeout: float | None = None) -> None:
        """Sets the options; the first text starts a worker.

        cache: the cache that the pool of workers uses. timeout: seconds of processor time for one text; None
        derives it from the text's size.
        """
        self._cache = cache
        self._timeout = timeout
        self._stack = ExitStack()
        self._pool: Pool | None = None
        self._scratch: Path | None = None
        self._memory = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def translate(self, data: bytes, name: str) -> bytes:
        """Returns the serialized HloModuleProto of HLO text in UTF-8.

        name: the file's name, for messages. Raises ArtifactError if the text is too large, has no ENTRY or is not
        UTF-8, if jaxlib is missing or does not parse it, or if parsing it ends the worker. Raises LigerdiagError if the
        temporary folder cannot be used.
        """
        if len(data) > MAXIMUM_TEXT_BYTES:
            raise ArtifactError(
                f"`{name}` has {len(data)} bytes of text, more than {MAXIMUM_TEXT_BYTES}: pass the module as a protobuf"
            )
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ArtifactError(f"`{name}` is not HLO text: {error.reason} at byte {error.start}") from error
        if not has_entry(data):
            raise ArtifactError(f"`{name}` has no ENTRY computation: it is cut off, or only a part of a module")
        if _ELIDED_OPERAND.search(data):
            raise ArtifactError(
                f"`{name}` leaves out the values of a constant in a list of operands: pass the module as a protobuf"
            )
        if is_missing("jaxlib"):
            raise ArtifactError(describe_missing(f"`{name}` is HLO text, whose parser", "jaxlib"))
        pool, scratch = self._start(len(data))
        text, proto = scratch / "module.txt", scratch / "module.pb"
        seconds = self._timeout or TEXT_BASE_SECONDS + TEXT_SECONDS_PER_BYTE * len(data)
        try:
            hidden, elided = _hide_elided(data)
            text.write_bytes(hidden)
            job = make_text_job(TextRequest(text=str(text), proto=str(proto), seconds=seconds), "this text")
            pool.submit(job).result()
            translated = read_untrusted(proto, MAXIMUM_FILE_BYTES)
            return _restore_elided(translated) if elided else translated
        except CompileError as error:
            if isinstance(error.__cause__, WorkerDied) and "SIGPROF" in str(error.__cause__):
                raise ArtifactError(
                    f"ligerdiag stopped parsing `{name}` after {seconds:.3g} s of processor time"
                ) from error
            raise ArtifactError(f"`{name}`: {error}") from error
        except OSError as error:
            raise LigerdiagError(f"cannot use the directory `{scratch}`: {error.strerror or error}") from error
        except BaseException:
            self._drop()  # the pool's worker may still be parsing this text
            raise
        finally:
            text.unlink(missing_ok=True)
            proto.unlink(missing_ok=True)

    def _start(self, size: int) -> tuple[Pool, Path]:
        """Returns a pool whose worker may use the memory that a text of that many bytes needs, and the folder for the
        files that are exchanged with the worker.
        """
        needed = TEXT_BASE_MEMORY_BYTES + TEXT_MEMORY_PER_BYTE * size
        if self._scratch is None:
            folder = ScratchFolder()
            self._stack.callback(folder.remove)
            self._scratch = folder.path
        if needed > self._memory:
            self._drop()
        if self._pool is None:
            self._memory = needed
            toolchain = describe_interpreter()  # any jaxlib has a parser; no GPU package is needed
            self._pool = self._stack.enter_context(
                Pool(cache=self._cache, toolchain=toolchain, jobs=1, module=TEXT_WORKER, memory_limit=needed)
            )
        return self._pool, self._scratch

    def _drop(self) -> None:
        """Ends the worker, so that the next text gets a new one."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
