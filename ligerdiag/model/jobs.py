"""Records that ligerdiag and its compile workers exchange, one JSON object a line."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ligerdiag.codec import Json, decode_record, encode_record, parse_object, read_object, read_record, read_str
from ligerdiag.errors import CaseError, CompileError, InputError, LigerdiagError

type Flag = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where cases are defined: a file, a name in an importable module, or a function in the caller's process."""

    file: str = ""
    """Absolute path; empty for a module."""
    module: str = ""
    """`module:name`; empty for a file. With `pickled`, the name of the function in messages."""
    root: str
    """Absolute path of the folder that is first on the import path."""
    pickled: str = ""
    """Absolute path of a function file (`compile.cases.live_functions`), which contains the one case."""

    def __str__(self) -> str:
        return self.file or self.module


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSpec:
    """A case without its function, as it is known outside of a worker."""

    id: str
    name: str
    params: tuple[str, ...]
    source: Source
    mesh: Mapping[str, int]
    expected: str | Mapping[str, str] | None
    about: str
    draws: str
    """sha256 of the arguments' records and of the identity of the case's reference: two cases with the same program and
    the same `draws` compute the same numbers."""
    expected_rules: tuple[str, ...] | None = None
    effects: Mapping[str, object] = field(default_factory=dict[str, object])
    """Effects of custom calls that the case declares, as JSON; not validated yet."""
    expected_elsewhere: Mapping[str, str | Mapping[str, str]] = field(
        default_factory=dict[str, str | Mapping[str, str]]
    )
    """Name of a toolchain to the expectation that replaces `expected` and `expected_rules`."""
    mitigation: str = ""
    """The case's measure against a hidden write, as `Case.mitigation`."""
    sizes: tuple[str, ...] = ()
    """Names of the sizes that its file reads, see `model.case.size`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job[A]:
    """One request to a worker of any kind, with everything that the pool needs."""

    source: Source
    """The source that the worker loads; a worker takes jobs of one source only."""
    name: str
    """For messages, such as "case `a`"."""
    render: Callable[[str], str]
    """From the path of the log to the line for the worker."""
    parse: Callable[[str], A]
    """From the worker's line to the answer; raises FieldError, or the error that the worker reported."""
    leftovers: tuple[str, ...] = ()
    """Directories that the pool removes afterwards, whatever the result."""
    timeout: float | None = None
    """In seconds; None means that of the pool."""
    imports_only: bool = False
    """Only the import of the source runs: if the worker exits, that file made it exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverRequest:
    """Asks for the cases of one source."""

    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverAnswer:
    """The cases, in the order of the file."""

    cases: tuple[CaseSpec, ...]
    dependencies: Mapping[str, str]
    """Files of the project that were imported, to their sha256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """Asks for the artifact of one case on one target."""

    source: Source
    case_id: str
    target: str
    """Name of the target, for provenance."""
    description: str
    """The target's description."""
    compute_capability: int
    toolchain: str
    versions: Mapping[str, str]
    environment: Mapping[str, str]
    """Environment variables that can change what is compiled."""
    flags: Mapping[str, Flag]
    """Compiler options, over the environment's XLA_FLAGS."""
    fingerprint: str
    """Fingerprint of the parts of ligerdiag that decide the artifact."""
    artifacts: str
    """Directory that holds the artifacts, by key."""
    scratch: str
    """Directory for the worker, on the file system of `artifacts`; it does not exist yet."""
    not_before: float
    """Older artifacts are compiled again; seconds since the epoch."""
    ties: tuple[str, ...] = ()
    """Ids of the readers that a trivial operation ties to their kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileAnswer:
    """The key of the artifact, and the project's files that the case imports, with their sha256."""

    key: str
    dependencies: Mapping[str, str] = field(default_factory=dict[str, str])


type Request = DiscoverRequest | CompileRequest
type Answer = DiscoverAnswer | CompileAnswer

_REFUSAL = '{"refused": true}'
_ERRORS: dict[str, type[LigerdiagError]] = {
    kind.__name__: kind for kind in (InputError, CaseError, CompileError, LigerdiagError)
}


def make_discover_job(request: DiscoverRequest) -> Job[DiscoverAnswer]:
    """Returns the job that asks a compile worker for cases."""
    return Job(
        source=request.source,
        name=f"`{request.source}`",
        render=lambda log: render_request(type(request).__name__, encode_record(request), log),
        parse=lambda line: decode_record(DiscoverAnswer, parse_answer(line)),
        imports_only=True,
    )


def make_compile_job(request: CompileRequest) -> Job[CompileAnswer]:
    """Returns the job that asks a compile worker for an artifact."""
    return Job(
        source=request.source,
        name=f"case `{request.case_id}`",
        render=lambda log: render_request(type(request).__name__, encode_record(request), log),
        parse=lambda line: decode_record(CompileAnswer, parse_answer(line)),
        leftovers=(request.scratch, f"{request.scratch}-old"),
    )


def render_request(kind: str, request: Mapping[str, object], log: str) -> str:
    """Returns one line for the worker; its output during the job goes to the file `log`."""
    return json.dumps({"job": kind, "log": log, "request": request}) + "\n"


def parse_request(job: Json) -> Request:
    """Returns the request of a compile worker's job."""
    kind = DiscoverRequest if read_str(job, "job") == DiscoverRequest.__name__ else CompileRequest
    return read_record(kind, job, "request")


def render_answer(answer: Answer) -> str:
    """Returns one line for the parent."""
    return json.dumps({"answer": encode_record(answer)}) + "\n"


def render_error(error: LigerdiagError) -> str:
    """Returns one line for the parent."""
    return json.dumps({"error": str(error), "kind": type(error).__name__}) + "\n"


def render_refusal() -> str:
    """Returns one line for the parent: the job needs a fresh worker."""
    return _REFUSAL + "\n"


def is_refusal(line: str) -> bool:
    """Returns whether the worker refused the job because it needs a fresh worker."""
    return line == _REFUSAL


def parse_answer(line: str) -> Json:
    """Returns the fields of the answer. Raises the error that the worker reported, or FieldError for a malformed line."""
    fields = parse_object(line)
    if "error" in fields:
        raise _ERRORS.get(read_str(fields, "kind"), LigerdiagError)(read_str(fields, "error"))
    return read_object(fields, "answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """The difference of a compile from the default one; by default there is none."""

    flags: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """Compiler options, in addition to the toolchain's; `xla_dump_hlo_pass_re` produces `Artifact.passes`."""
    ties: tuple[str, ...] = ()
    """Ids of `Artifact.readers`, each of which a trivial operation ties to its kernel, in any order."""
