"""The messages between ligerdiag and the worker that parses HLO text: names of two files."""

import json
from dataclasses import asdict, dataclass

from ligerdiag.compile.fields import FieldError, Json, read_float, read_object, read_str
from ligerdiag.compile.job import Job, Source, parse_answer, render_request
from ligerdiag.limits import WALL_FACTOR, WALL_SECONDS


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
        render=lambda log: render_request("text", asdict(request), log),
        parse=parse,
        timeout=WALL_SECONDS + WALL_FACTOR * request.seconds,
    )


def parse_text_request(job: Json) -> TextRequest:
    """Returns the request of a text worker's job."""
    request = read_object(job, "request")
    return TextRequest(
        text=read_str(request, "text"), proto=read_str(request, "proto"), seconds=read_float(request, "seconds")
    )


def render_text_answer(request: TextRequest) -> str:
    """Returns one line for the parent."""
    return json.dumps({"answer": {"proto": request.proto}}) + "\n"
