"""Worker side: `python -m ligerdiag.dumps.text_worker` turns HLO text into protobuf, with jaxlib's own parser.

The parser is private to jaxlib, aborts the process for some inputs and has no bounds: so it runs in a process of its
own. The schedule is kept: with `is_scheduled=true` the order of the lines is the order of the protobuf's sequences.
"""

import importlib
import json
import signal
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ligerdiag.codec import FieldError, Json, encode_record, read_record, read_str
from ligerdiag.errors import CompileError
from ligerdiag.model.jobs import Job, Source, parse_answer, render_request
from ligerdiag.untrusted_files import MAXIMUM_TEXT_BYTES, WALL_FACTOR, WALL_SECONDS, read_untrusted
from ligerdiag.workers.loop import Answerer, serve


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """Asks for the protobuf of a module that is there as text."""

    text: str
    """Path of a file with HLO text, UTF-8, not packed."""
    proto: str
    """Path of the file to write: a serialized HloModuleProto."""
    seconds: float
    """Of a processor that parsing may take."""


def make_text_job(request: TextRequest, name: str) -> Job[None]:
    """Returns the job that asks a text worker; its answer is that the file is written.

    The worker holds to its processor time itself. By the clock it gets many times that: the machine may be busy.
    """

    def parse(line: str) -> None:
        if read_str(parse_answer(line), "proto") != request.proto:
            raise FieldError("the worker answered for another file")

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
    """Returns one line for the parent."""
    return json.dumps({"answer": {"proto": request.proto}}) + "\n"


PARSER_MODULES = ("jaxlib._hlo", "jaxlib._jax")
"""Modules in which versions of jaxlib keep the parser."""
MAXIMUM_MESSAGE = 300


def prepare() -> Answerer:
    """Imports jaxlib, not jax."""
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
            raise CompileError(f"no HLO text that jaxlib can parse: {_shorten(fault)}") from fault
        Path(request.proto).write_bytes(proto)
        return render_text_answer(request)

    return answer


@contextmanager
def _end_after(seconds: float) -> Generator[None]:
    """The operating system ends this process by SIGPROF when the block takes more of a processor: the parser is C++."""
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
    raise CompileError("this jaxlib has no parser for HLO text: give the protobuf, `--xla_dump_hlo_as_proto`")


def _shorten(fault: Exception) -> str:
    """Returns the fault's first lines in one."""
    return " ".join(str(fault).split())[:MAXIMUM_MESSAGE] or type(fault).__name__


if __name__ == "__main__":
    serve(prepare, starts_nothing=True)
