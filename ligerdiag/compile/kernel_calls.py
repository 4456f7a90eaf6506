"""Worker side: which kernel calls the program asks for, and which of them XLA gets to see.

A kernel that is called for its effect alone has no output that anybody uses, and is dropped: by JAX while it traces or
lowers, or on the way from StableHLO to HLO. To notice,

1. every bind of a kernel primitive during tracing is written down (what the program asked for),
2. every kernel equation of the traced program is, in sub-programs too, each sub-program once,
3. the StableHLO operations at the same source line for the same target are their tags, and
4. a tag that is missing in the unoptimized HLO was dropped.

Where fewer calls of one kernel at one line arrive than were traced, those without used outputs are the ones that are
missing: the others cannot be dropped.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend import core as jex_core
from jaxlib.mlir import ir

from ligerdiag.compile.artifacts import KernelCall
from ligerdiag.compile.tags import walk_operations
from ligerdiag.compile.worker_faults import is_project_file
from ligerdiag.findings import SourceLine

PRIMITIVES = ("triton_kernel_call", "pallas_call")

_TAG = re.compile(rb"#ld(\d+)")
_UNKNOWN = SourceLine(file="", line=0)

type Site = tuple[str, str, int]
"""Kernel name, file, line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """A kernel call as the program asks for it, before it is known whether XLA sees it."""

    kernel: str
    primitive: str
    operands: int
    outputs: int
    source: SourceLine
    name_stack: str
    traced: bool
    outputs_used: bool
    operand_used_later: bool

    @property
    def site(self) -> Site:
        return (self.kernel, self.source.file, self.source.line)


@dataclass(slots=True)
class BindRecord:
    """The binds of kernel primitives during one trace."""

    calls: list[TracedCall] = field(default_factory=list[TracedCall])


@contextmanager
def record_binds(primitives: list[Any]) -> Iterator[BindRecord]:
    """Writes down every bind of the primitives inside the context."""
    record = BindRecord()

    def wrap(primitive: Any, bind: Any) -> Any:
        def recorded(*args: Any, **params: Any) -> Any:
            results = bind(*args, **params)
            traceback = jax.extend.source_info_util.current().traceback if _HAS_SOURCE_INFO else None
            record.calls.append(
                TracedCall(
                    kernel=compute_kernel_name(params),
                    primitive=primitive.name,
                    operands=len(args),
                    outputs=len(results) if isinstance(results, tuple | list) else 1,
                    source=find_user_line(traceback),
                    name_stack="",
                    traced=False,
                    outputs_used=False,
                    operand_used_later=True,
                )
            )
            return results

        return recorded

    for primitive in primitives:
        primitive.bind = wrap(primitive, primitive.bind)
    try:
        yield record
    finally:
        for primitive in primitives:
            del primitive.bind
