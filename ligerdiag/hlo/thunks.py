"""Parses XLA's dump of a thunk sequence: the launches, their streams and command buffers, and the order that these keep.

XLA dumps a thunk sequence as text. A line is a thunk. It has the thunk's id and kind; in brackets, the nearest thunks
before and after it with which it must not change places, because of the buffers that they declare; and details that depend
on the kind. Lines with more indentation are thunks that run inside of it:

    000: kCommandBuffer [source | sink]
        001: kCustomKernel [source       | next=002 (1)] gemm_fusion_dot_3 grid: [4, 1, 1] threads: [64, 1, 1] ...
    002: kAsyncStart   [prev=001 (1) | next=006 (3)] stream=communication_stream[0], async_id=2
        003: kAllGather [source | sink] kAllGather
    004: kWhile        [prev=002 (1) | sink        ]
    condition:
        005: kCustomKernel ...
      body:
        006: kCustomKernel ...

The parser ignores the brackets: they name one thunk on either side only, and do not depend on the order that the
command buffer keeps. Thunks that a pass made, such as command buffers, have the id 0. XLA before 2025 wrote a kind and
a tab, no id, and not always the nested thunks; command buffers were computations of the module then.

XLA's flags choose the order in which a command buffer runs its commands. With `xla_gpu_command_buffer_scheduling_mode`
SERIALIZE or LHS (the default) it keeps the order of the schedule, except for async spans. With CONCURRENT and
CONCURRENT_REGIONS it keeps the order of two commands only where the buffers that they *declare* conflict, or where a
control edge orders them (CreateCommandOperations in xla/backends/gpu/runtime/command_executor.cc). Before that flag,
`xla_gpu_graph_enable_concurrent_region` meant CONCURRENT and was false by default.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ligerdiag.errors import ArtifactError

COMMAND_BUFFER = "kCommandBuffer"
ASYNC_START = "kAsyncStart"
ASYNC_DONE = "kAsyncDone"

_THUNK = re.compile(r"( *)(?:(\d+): )?(k[A-Z]\w*) *(?:\[[^\]]*\]|\t)?(.*)", re.ASCII)
_LABEL = re.compile(r" *(condition|body|\w*branch\w*):", re.ASCII)
_EMPTY = re.compile(r"^ *No thunks\.", re.ASCII)
"""Matches XLA's text for a branch that runs nothing; XLA writes no newline after it."""
_STREAM = re.compile(r"\bstream=(\w+(?:\[\d+\])?)", re.ASCII)
_LARGEST = 64 << 20
"""Most bytes of a dump that is read; no thunk sequence of a real program is larger."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Thunk:
    """One thunk (a launch or another step of XLA's executable), with the thunks inside of it."""

    id: int
    """XLA's id of the thunk, in the order of emission; 0 where a pass made the thunk."""
    kind: str
    """XLA's name for the kind of thunk, such as `kCustomKernel`."""
    text: str
    """The rest of the line, such as a kernel's name and launch, or a stream."""
    nested: tuple[tuple[str, "ThunkSequence"], ...] = ()
    """(label, sequence) of each sequence inside of the thunk: the label is `condition`, `body` or the label of a branch;
    empty for the sequence in a thunk of any other kind.
    """

    @property
    def stream(self) -> str:
        """Returns the stream on which an asynchronous start launches, such as `communication_stream[0]`. Returns '' for any
        other thunk.
        """
        found = _STREAM.search(self.text) if self.kind == ASYNC_START else None
        return found[1] if found else ""


@dataclass(frozen=True, slots=True, eq=False)
class ThunkSequence:
    """The thunks (launches and other steps) of a computation, in the order of their launch."""

    thunks: tuple[Thunk, ...]
    shows_nested: bool = True
    """Whether the text lists every nested thunk; older XLA omits some."""

    def walk(self) -> Iterator[Thunk]:
        """Yields every thunk, including nested ones, each after the thunk around it."""
        for thunk in self.thunks:
            yield thunk
            for _, sequence in thunk.nested:
                yield from sequence.walk()


@dataclass(slots=True)
class _Line:
    indent: int
    thunk: tuple[int, str, str]
    label: str
    """The part of the enclosing thunk to which the following lines belong."""
    inner: list["_Line"]
    labels: list[str]
    """Labels of the sequences inside of the thunk, in order. A label without lines after it is an empty sequence."""


def parse_thunks(text: str) -> ThunkSequence:
    """Returns the thunk sequence in the text of a dump. Raises ArtifactError if a line is not in a form that XLA writes."""
    if len(text) > _LARGEST:
        raise ArtifactError(f"the thunk sequence has {len(text)} characters, more than {_LARGEST}")
    root: list[_Line] = []
    around: list[_Line] = []
    labels: dict[int, str] = {}
    """From depth of nesting to the label that was read last there."""
    pending: list[str] = []
    shows_nested = True
    for number, read in enumerate(text.splitlines(), 1):
        line = _EMPTY.sub("", read)
        if not line.strip():
            continue
        label = _LABEL.fullmatch(line.rstrip())
        if label:
            pending.append(label[1])
            continue
        found = _THUNK.fullmatch(line)
        if found is None:
            raise ArtifactError(f"line {number} of the thunk sequence is not in a known format: `{line.strip():.60}`")
        indent, shows_nested = len(found[1]), shows_nested and found[2] is not None
        while around and around[-1].indent >= indent:
            around.pop()
        if pending:
            labels[len(around)] = pending[-1]
            if around:
                around[-1].labels += pending
            pending = []
        elif not around or not around[-1].inner:
            labels[len(around)] = ""
        added = _Line(indent, (int(found[2] or 0), found[3], found[4].strip(" ,")), labels.get(len(around), ""), [], [])
        (around[-1].inner if around else root).append(added)
        around.append(added)
    return ThunkSequence(tuple([_build(line) for line in root]), shows_nested)


def _build(line: _Line) -> Thunk:
    sequences: dict[str, list[Thunk]] = {label: [] for label in line.labels}
    for inner in line.inner:
        sequences.setdefault(inner.label, []).append(_build(inner))
    number, kind, text = line.thunk
    nested = tuple((label, ThunkSequence(tuple(thunks))) for label, thunks in sequences.items())
    return Thunk(id=number, kind=kind, text=text, nested=nested)


_MODE = re.compile(r"\bxla_gpu_command_buffer_scheduling_mode[\"'\s:=]+(\w+)", re.ASCII)
_REGIONS = re.compile(r"\bxla_gpu_graph_enable_concurrent_region\b(?:[\"'\s:=]+(\w+))?", re.ASCII)


class CommandOrder(Enum):
    """The order that XLA's runtime keeps among the commands of one command buffer."""

    SCHEDULE = "schedule"
    """Commands run in the order of the schedule."""
    DECLARED = "declared"
    """Commands keep only the order that their declared uses of buffers force."""
    UNKNOWN = "unknown"


_MODES = dict.fromkeys(("SERIALIZE", "0", "LHS", "2"), CommandOrder.SCHEDULE) | dict.fromkeys(
    ("CONCURRENT", "1", "CONCURRENT_REGIONS"), CommandOrder.DECLARED
)


def parse_command_order(flags: str) -> CommandOrder:
    """Returns the order that command buffers keep with some flags of XLA. The flags may be written as `--name=value`, as
    `name: value` (in a dump's debug options), or as JSON.
    """
    modes = _MODE.findall(flags)
    if modes:
        return _MODES.get(modes[-1].upper(), CommandOrder.UNKNOWN)
    regions = _REGIONS.findall(flags)
    if regions and regions[-1].lower() not in ("false", "0"):
        return CommandOrder.DECLARED
    return CommandOrder.SCHEDULE
