"""Parses the names of XLA's dump files (xla/service/dump.cc, FilenameFor).

    [timestamp.]module_0003[.jit_step][.cl_123].before_optimizations.hlo.pb
    [timestamp.]module_0003[.jit_step].sm_9.0a_gpu_after_optimizations[-buffer-assignment].txt
    module_0003.jit_step.thunk_sequence[_after_thunk_passes].txt
    [timestamp.]module_0003.jit_step.0042.fusion.after_x.before_y.hlo.pb.gz

1. The module's name may hold dots and is left out if the file's name would be longer than 255 characters.
2. The target is `sm_8.0`, `sm_9.0a`, `gfx90a` on GPUs, else `cpu` or `tpu`; older versions leave it out.
3. Beside a file with a timestamp others of the same module have none.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The part of a compilation that a file holds."""

    PROGRAM = "program"
    """The module before optimizations."""
    OPTIMIZED = "optimized"
    """The module after optimizations, with its schedule."""
    BUFFERS = "buffers"
    """The buffer assignment as text."""
    SNAPSHOT = "snapshot"
    """The module between two passes."""
    OTHER = "other"
    """Of a module, and nothing that is read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpName:
    """The parts of a name."""

    stamp: str
    """Microseconds since the epoch; empty without a timestamp."""
    number: str
    """Such as `module_0003`."""
    module: str
    """Such as `jit_step`; empty where the name leaves it out."""
    role: Role
    target: str = ""
    """Such as `sm_9.0a`; empty where the name does not say."""
    is_proto: bool = False
    """Whether a protobuf is to be expected by the name."""


_HEAD = re.compile(r"(?:(?P<stamp>\d+)\.)?(?P<number>module_\d+)\.(?P<rest>.+)", re.DOTALL)
_FORM = re.compile(r"(?P<stem>.+?)\.(?P<form>hlo\.pb|pb|txt|hlo)(?:\.gz)?")
_SNAPSHOT = re.compile(r"(?:(?P<module>.*?)\.)?\d{4}\..*(?:after|before)_.*", re.DOTALL)
_AFTER = re.compile(
    r"(?:(?P<module>.*?)\.)??(?:(?P<target>sm_\d+\.\d+\w*|[^.]+?)_)?after_optimizations(?P<tail>-[\w-]+)?", re.DOTALL
)
_BEFORE = re.compile(r"(?:(?P<module>.*)\.)?before_optimizations", re.DOTALL)


def parse_dump_name(name: str) -> DumpName | None:
    """Parses the name of one file, without its directory; None for a name that XLA does not give."""
    head = _HEAD.fullmatch(name)
    if head is None:
        return None
    stamp, number = head["stamp"] or "", head["number"]
    form = _FORM.fullmatch(head["rest"])
    if form is None:
        return DumpName(stamp=stamp, number=number, module="", role=Role.OTHER)
    stem, is_proto = form["stem"], form["form"] in ("hlo.pb", "pb")

    def make(role: Role, module: str | None, target: str | None = None) -> DumpName:
        return DumpName(
            stamp=stamp, number=number, module=module or "", role=role, target=target or "", is_proto=is_proto
        )

    before = _BEFORE.fullmatch(stem)
    if before is not None and not _SNAPSHOT.fullmatch(stem):
        return make(Role.PROGRAM, before["module"])
    after = _AFTER.fullmatch(stem)
    if after is not None and not _SNAPSHOT.fullmatch(stem):
        role = _AFTER_ROLES.get(after["tail"] or "", Role.OTHER)
        target = (after["target"] or "").removesuffix("_gpu")
        return make(Role.OTHER if role is Role.BUFFERS and is_proto else role, after["module"], target)
    if _SNAPSHOT.fullmatch(stem):
        return make(Role.SNAPSHOT, "")
    return make(Role.OTHER, "")


_AFTER_ROLES = {"": Role.OPTIMIZED, "-buffer-assignment": Role.BUFFERS}
