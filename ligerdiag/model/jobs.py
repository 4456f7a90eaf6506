"""Records that cross the boundary between ligerdiag and its compile workers, one JSON object a line."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from ligerdiag.codec import (
    FieldError,
    Json,
    as_object,
    parse_object,
    read_bool,
    read_float,
    read_int,
    read_int_map,
    read_list,
    read_object,
    read_str,
    read_str_map,
    read_strs,
)
from ligerdiag.errors import CaseError, CompileError, InputError, LigerdiagError

type Flag = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The place where cases are defined: a file, a name in an importable module, or a function in the caller's
    process."""

    file: str = ""
    """Absolute path; empty for a module."""
    module: str = ""
    """`module:name`; empty for a file. With `pickled`, what the function is called in messages."""
    root: str
    """Absolute path of the folder that imports start from."""
    pickled: str = ""
    """Absolute path of a `function_file`, which holds the one case."""

    def __str__(self) -> str:
        return self.file or self.module


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSpec:
    """A case without its function: what can be said about it outside a worker."""

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
    """The effects of custom calls that the case declares, as in JSON; not validated yet."""
    expected_elsewhere: Mapping[str, str | Mapping[str, str]] = field(
        default_factory=dict[str, str | Mapping[str, str]]
    )
    """Name of a toolchain to what is expected of it, in the place of the two."""
    mitigation: str = ""
    """The case's measure against a hidden write, as `Case.mitigation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job[A]:
    """One request to a worker, of any kind: everything that the pool needs to know of it."""

    source: Source
    """The source that the worker has to load; a worker takes jobs of one source only."""
    name: str
    """For messages, such as "case `a`"."""
    render: Callable[[str], str]
    """From the path of the log to the line for the worker."""
    parse: Callable[[str], A]
    """From the worker's line to the answer; raises FieldError, or the error that the worker reported."""
    leftovers: tuple[str, ...] = ()
    """Directories that are removed afterwards, however it ends."""
    timeout: float | None = None
    """Seconds; None means the pool's."""
    imports_only: bool = False
    """Whether only the import of the source runs: a worker that ends with an exit code was ended by that file."""


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
    """Its name, for provenance."""
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
    """Of ligerdiag's own part of the recipe."""
    artifacts: str
    """Directory that holds the artifacts, by key."""
    scratch: str
    """Directory to work in; does not exist yet, on the file system of `artifacts`."""
    not_before: float
    """An artifact that is older is compiled again; seconds since the epoch."""
    ties: tuple[str, ...] = ()
    """Ids of the readers that a trivial operation ties to their kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileAnswer:
    """The place of the artifact, and its origin."""

    key: str
    reused: bool
    """Whether another process had compiled the same program already."""
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
        render=lambda log: render_request(type(request).__name__, asdict(request), log),
        parse=lambda line: _parse_discovered(parse_answer(line)),
        imports_only=True,
    )


def make_compile_job(request: CompileRequest) -> Job[CompileAnswer]:
    """Returns the job that asks a compile worker for an artifact."""
    return Job(
        source=request.source,
        name=f"case `{request.case_id}`",
        render=lambda log: render_request(type(request).__name__, asdict(request), log),
        parse=lambda line: _parse_compiled(parse_answer(line)),
        leftovers=(request.scratch, f"{request.scratch}-old"),
    )


def render_request(kind: str, request: Mapping[str, object], log: str) -> str:
    """Returns one line for the worker; its output during the job goes to the file `log`."""
    return json.dumps({"job": kind, "log": log, "request": request}) + "\n"


def parse_request(job: Json) -> Request:
    """Returns the request of a compile worker's job."""
    request = read_object(job, "request")
    source = parse_source(read_object(request, "source"))
    if read_str(job, "job") == DiscoverRequest.__name__:
        return DiscoverRequest(source=source)
    return parse_compile_request(request)


def parse_compile_request(request: Json) -> CompileRequest:
    """Returns the record of a JSON object."""
    return CompileRequest(
        source=parse_source(read_object(request, "source")),
        case_id=read_str(request, "case_id"),
        target=read_str(request, "target"),
        description=read_str(request, "description"),
        compute_capability=read_int(request, "compute_capability"),
        toolchain=read_str(request, "toolchain"),
        versions=read_str_map(request, "versions"),
        environment=read_str_map(request, "environment"),
        flags=parse_flags(read_object(request, "flags")),
        fingerprint=read_str(request, "fingerprint"),
        artifacts=read_str(request, "artifacts"),
        scratch=read_str(request, "scratch"),
        not_before=read_float(request, "not_before"),
        ties=read_strs(request, "ties"),
    )


def render_answer(answer: Answer) -> str:
    """Returns one line for the parent."""
    return json.dumps({"answer": asdict(answer)}) + "\n"


def render_error(error: LigerdiagError) -> str:
    """Returns one line for the parent."""
    return json.dumps({"error": str(error), "kind": type(error).__name__}) + "\n"


def render_refusal() -> str:
    """Returns one line for the parent: the worker is not fresh enough for the job."""
    return _REFUSAL + "\n"


def is_refusal(line: str) -> bool:
    """Returns whether the job has to be given to a fresh worker."""
    return line == _REFUSAL


def parse_answer(line: str) -> Json:
    """Returns the answer's fields; raises the error that the worker reported instead, FieldError when the line is
    neither."""
    fields = parse_object(line)
    if "error" in fields:
        raise _ERRORS.get(read_str(fields, "kind"), LigerdiagError)(read_str(fields, "error"))
    return read_object(fields, "answer")


def parse_cases(items: list[object]) -> tuple[CaseSpec, ...]:
    """Returns the case records of a JSON array."""
    return tuple(_parse_case(as_object(item, "case")) for item in items)


def parse_flags(fields: Json) -> dict[str, Flag]:
    """Compiler options of a JSON object."""
    flags: dict[str, Flag] = {}
    for name, value in fields.items():
        if not isinstance(value, str | int | float | bool):
            raise FieldError(f"expected a plain value for flag `{name}` but got {value!r:.60}")
        flags[name] = value
    return flags


def parse_source(fields: Json) -> Source:
    """Returns the source of a JSON object."""
    return Source(
        file=read_str(fields, "file"),
        module=read_str(fields, "module"),
        root=read_str(fields, "root"),
        pickled=read_str(fields, "pickled"),
    )


def _parse_discovered(answer: Json) -> DiscoverAnswer:
    return DiscoverAnswer(
        cases=parse_cases(read_list(answer, "cases")), dependencies=read_str_map(answer, "dependencies")
    )


def _parse_compiled(answer: Json) -> CompileAnswer:
    return CompileAnswer(
        key=read_str(answer, "key"),
        reused=read_bool(answer, "reused"),
        dependencies=read_str_map(answer, "dependencies"),
    )


def _parse_case(fields: Json) -> CaseSpec:
    elsewhere = read_object(fields, "expected_elsewhere")
    return CaseSpec(
        id=read_str(fields, "id"),
        name=read_str(fields, "name"),
        params=read_strs(fields, "params"),
        source=parse_source(read_object(fields, "source")),
        mesh=read_int_map(fields, "mesh"),
        expected=None if fields.get("expected") is None else _parse_expected(fields, "expected"),
        expected_rules=None if fields.get("expected_rules") is None else read_strs(fields, "expected_rules"),
        effects=read_object(fields, "effects"),
        expected_elsewhere={name: _parse_expected(elsewhere, name) for name in elsewhere},
        about=read_str(fields, "about"),
        draws=read_str(fields, "draws"),
        mitigation=read_str(fields, "mitigation"),
    )


def _parse_expected(fields: Json, name: str) -> str | Mapping[str, str]:
    value = fields.get(name)
    return value if isinstance(value, str) else read_str_map(fields, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """How a compile differs from the default; with no fields given, it does not."""

    flags: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """Compiler options, over the toolchain's; `xla_dump_hlo_pass_re` leaves `Artifact.passes`."""
    ties: tuple[str, ...] = ()
    """Ids of `Artifact.readers`: a trivial operation ties each of these to its kernel. Their order means nothing."""
