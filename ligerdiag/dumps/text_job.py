"""What crosses the boundary between ligerdiag and the worker that parses HLO text: names of two files."""

import json
from dataclasses import dataclass

from ligerdiag.compile.fields import FieldError, Json, read_object, read_str
from ligerdiag.compile.job import Job, Source, parse_answer, render_request


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """Asks for the protobuf of a module that is there as text."""

    text: str
    """Path of a file with HLO text, UTF-8, not packed."""
    proto: str
    """Path of the file to write: a serialized HloModuleProto."""


def make_text_job(request: TextRequest, name: str, timeout: float) -> Job[None]:
    """The job that asks a text worker; its answer is that the file is written. timeout: seconds."""

    def parse(line: str) -> None:
        if read_str(parse_answer(line), "proto") != request.proto:
            raise FieldError("the worker answered for another file")

    return Job(
        source=Source(module="HLO text", root="/"),
        name=name,
        render=lambda log: render_request("text", {"text": request.text, "proto": request.proto}, log),
        parse=parse,
        timeout=timeout,
    )


def parse_text_request(job: Json) -> TextRequest:
    """The request of a text worker's job."""
    request = read_object(job, "request")
    return TextRequest(text=read_str(request, "text"), proto=read_str(request, "proto"))


def render_text_answer(request: TextRequest) -> str:
    """One line for the parent."""
    return json.dumps({"answer": {"proto": request.proto}}) + "\n"
