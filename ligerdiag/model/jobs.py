"""Records that ligerdiag and its compile workers exchange, one JSON object per line."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ligerdiag.codec import Json, decode_record, encode_record, parse_object, read_object, read_record, read_str
from ligerdiag.errors import CaseError, CompileError, InputError, LigerdiagError
from ligerdiag.model.tuning import TuningFile

type Flag = str | int | float | bool
type WritePlace = tuple[tuple[int, ...], int]
"""A hidden write of a program: (the ids of the instructions that lead from the entry computation to the kernel's call, the
call last; the number of the operand that the kernel overwrites).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where cases are defined: a file, a name in an importable module, a function in the caller's process, or a StableHLO
    module.
    """

    file: str = ""
    """Absolute path of the file that defines the cases; empty if the cases come from a module."""
    module: str = ""
    """`module:name` of cases in an importable module; empty if the cases come from a file. If `pickled` is set, the
    function's name in messages.
    """
    root: str
    """Absolute path of the folder that is first on the import path."""
    pickled: str = ""
    """Absolute path of a function file (`compile.cases.live_functions`), which contains one function of the caller's
    process as the only case.
    """
    stablehlo: str = ""
    """Absolute path of a file with a StableHLO module, or with a program that `jax.export` has serialized. The program
    in the file is then the only case, and `module` is its name.
    """
    patches: tuple[tuple[str, str], ...] = ()
    """(real path of a file of the project, path of a file with the text that a worker reads in its place)."""

    def __str__(self) -> str:
        return self.file or self.module


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSpec:
    """A case without its function: all that a process needs to know unless it compiles the case."""

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
    """Effects of custom calls (the operands that each reads and overwrites) that the case declares, as JSON that is not
    validated yet.
    """
    expected_elsewhere: Mapping[str, str | Mapping[str, str]] = field(
        default_factory=dict[str, str | Mapping[str, str]]
    )
    """Maps the name of a toolchain to the expectation that replaces `expected` and `expected_rules` if that toolchain
    compiles.
    """
    mitigation: str = ""
    """The case's measure against a hidden write, as in `Case.mitigation`."""
    has_reference: bool = False
    """Whether the case has a reference, a function that computes the same in plain jnp."""
    sizes: tuple[str, ...] = ()
    """Names of the sizes that the case's file reads by `model.case.size`."""
    xla_flags: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """Flags of XLA with which the case is compiled, in addition to those of the toolchain and the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job[A]:
    """One request to a worker of any kind, with everything that the pool of workers needs to send it."""

    source: Source
    """The cases that the worker loads; a worker takes jobs of one source only."""
    name: str
    """The job's name in messages, such as "case `a`"."""
    render: Callable[[str], str]
    """Returns the line to send to the worker, given the path of the log file."""
    parse: Callable[[str], A]
    """Returns the answer, given the line that the worker sent; raises FieldError, or the error that the worker
    reported.
    """
    leftovers: tuple[str, ...] = ()
    """Directories that the pool removes after the job, whatever its result."""
    timeout: float | None = None
    """Seconds that the job may take; None means the pool's own limit."""
    imports_only: bool = False
    """Whether the job only imports the source: if the worker exits, the imported file made it exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverRequest:
    """Asks a worker for the cases of one source."""

    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverAnswer:
    """The cases that a worker found in a source, in the order of the file."""

    cases: tuple[CaseSpec, ...]
    dependencies: Mapping[str, str]
    """Maps the path of each file of the project that was imported to the file's sha256."""
    printed: str = ""
    """The text that the user's code printed while it was imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """Asks a worker to compile one case for one target into an artifact."""

    source: Source
    case_id: str
    target: str
    """Name of the target, which the artifact records."""
    description: str
    """XLA's description of the target GPU."""
    compute_capability: int
    toolchain: str
    versions: Mapping[str, str]
    environment: Mapping[str, str]
    """Environment variables that can change what is compiled."""
    flags: Mapping[str, Flag]
    """Compiler options, which take precedence over XLA_FLAGS of the environment."""
    fingerprint: str
    """Fingerprint of the parts of ligerdiag that an artifact depends on."""
    artifacts: str
    """Directory that holds all artifacts, each under its key."""
    scratch: str
    """Directory for the worker's own use, on the same file system as `artifacts`; it does not exist yet."""
    not_before: float
    """Artifacts older than this time are compiled again; seconds since the epoch."""
    ties: tuple[str, ...] = ()
    """Ids of the reads that the worker ties to their kernel: it adds a trivial operation that makes the reader wait."""
    by_barrier: bool = False
    """Whether an optimization barrier ties the reads, in place of a trivial operation."""
    declared: tuple[str, ...] = ()
    """The hidden writes that the worker declares to XLA, written as in `Variation.declared`."""
    tuning: TuningFile | None = None
    """The choices of XLA's autotuner with which the worker compiles; None compiles without them."""
    lineage: bool = False
    """Whether XLA also records the lineage of values, as in `Variation`."""

    def list_leftovers(self) -> tuple[str, ...]:
        """Returns the directories that the worker leaves behind if it dies during the job."""
        return (self.scratch, f"{self.scratch}-old")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileAnswer:
    """The key of a compiled artifact, and the project's files that the case imports, with their sha256."""

    key: str
    dependencies: Mapping[str, str] = field(default_factory=dict[str, str])
    printed: str = ""
    """The text that the user's code printed while the case was traced."""
    state_notes: tuple[str, ...] = ()
    """The parts of the caller's state that a worker could not get (see `compile.cases.module_state`), one sentence each."""


type Request = DiscoverRequest | CompileRequest

_REFUSAL = '{"refused": true}'
_ERRORS: dict[str, type[LigerdiagError]] = {
    kind.__name__: kind for kind in (InputError, CaseError, CompileError, LigerdiagError)
}


def make_discover_job(request: DiscoverRequest) -> Job[DiscoverAnswer]:
    """Returns the job that asks a compile worker for the cases of a source."""
    job = make_job(request, DiscoverAnswer, request.source, f"`{request.source}`")
    return replace(job, imports_only=True)


def make_compile_job(request: CompileRequest) -> Job[CompileAnswer]:
    """Returns the job that asks a compile worker to compile a case into an artifact."""
    return make_job(
        request, CompileAnswer, request.source, f"case `{request.case_id}`", leftovers=request.list_leftovers()
    )


def make_job[A](
    request: object,
    answer: type[A],
    source: Source,
    name: str,
    *,
    timeout: float | None = None,
    leftovers: tuple[str, ...] = (),
) -> Job[A]:
    """Returns the job that sends a record to a worker and gets another record as the answer.

    request: the record; its type is the kind of the request. answer: the type of the answer. The other parameters are fields
    of `Job`.
    """
    return Job(
        source=source,
        name=name,
        render=lambda log: render_request(type(request).__name__, encode_record(request), log),
        parse=lambda line: decode_record(answer, parse_answer(line)),
        leftovers=leftovers,
        timeout=timeout,
    )


def render_request(kind: str, request: Mapping[str, object], log: str) -> str:
    """Returns the request as one line for the worker, which writes its output during the job to the file `log`."""
    return json.dumps({"job": kind, "log": log, "request": request}) + "\n"


def parse_request(job: Json) -> Request:
    """Returns the request that a compile worker reads from a job's JSON."""
    kind = DiscoverRequest if read_str(job, "job") == DiscoverRequest.__name__ else CompileRequest
    return read_record(kind, job, "request")


def render_answer(answer: object) -> str:
    """Returns the answer, a record, as one line, which the worker sends to its parent process."""
    return json.dumps({"answer": encode_record(answer)}) + "\n"


def render_error(error: LigerdiagError) -> str:
    """Returns the error as one line, which the worker sends to its parent process."""
    return json.dumps({"error": str(error), "kind": type(error).__name__, "printed": error.printed}) + "\n"


def render_refusal() -> str:
    """Returns the line with which a worker refuses a job. The line tells the parent process that the job needs a new
    worker.
    """
    return _REFUSAL + "\n"


def is_refusal(line: str) -> bool:
    """Returns whether the line, which a worker has sent, says that the job needs a new worker."""
    return line == _REFUSAL


def parse_answer(line: str) -> Json:
    """Returns the fields of a worker's answer. Raises the error that the worker reported, or FieldError for a malformed
    line.
    """
    fields = parse_object(line)
    if "error" in fields:
        error = _ERRORS.get(read_str(fields, "kind"), LigerdiagError)(read_str(fields, "error"))
        error.printed = read_str(fields, "printed") if "printed" in fields else ""
        raise error
    return read_object(fields, "answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """The settings in which one compile differs from the default compile; an empty `Variation` is the default compile."""

    flags: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """Compiler options, in addition to those of the toolchain. With the option `xla_dump_hlo_pass_re`, the compile also
    keeps the modules that XLA dumps between passes, in `Artifact.passes`.
    """
    ties: tuple[str, ...] = ()
    """Ids of `Artifact.readers`, in any order; the compile adds a trivial operation that makes each of these readers
    wait for its kernel.
    """
    by_barrier: bool = False
    """Whether an optimization barrier ties the readers, in place of a trivial operation."""
    declared: tuple[str, ...] = ()
    """Hidden writes as `<tag of the kernel call>.<operand>`; the compile declares them: the call gets an output that
    aliases the operand, and all readers after the call read that output.
    """
    tuning: TuningFile | None = None
    """The choices of XLA's autotuner with which to compile, as a GPU made them; None compiles without them."""
    lineage: bool = False
    """Whether XLA also records the lineage of values: for an instruction, the operation of the program that produces its
    value (see `compile.lowering.lineage`). If XLA cannot compile the program with it, the compile records none, and
    `Provenance.lineage` says why.
    """
