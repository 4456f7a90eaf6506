"""Defines a rule, with its id, page, examples and check, and builds the findings that several rules make.

An example is a whole case file: a test of the rule and a part of its page. The examples share one kernel, which returns
each row's sum and doubles the row in place. They run with every generation of jax-triton: a call that hides the write
uses `triton_call` with `out_shape`, which all of them accept, and a call that declares it uses `call_in_place`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.analysis.verdict.merged_reads import find_merged_read
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.model.findings import DeviceRun, Finding, ReadPlace, Replay, ReplayState, Severity, SourceLine, Verdict
from ligerdiag.model.memory import MemoryUse
from ligerdiag.model.memory_limits import MemoryBudgets
from ligerdiag.model.schedule_view import ScheduleFacts
from ligerdiag.rules.special_values import Special, describe_special, find_special
from ligerdiag.rules.wording import (
    describe_merged,
    describe_remedy,
    describe_write,
    group_by_merged,
    locate_call,
    locate_merged,
    locate_read,
    name_instructions,
    render_at,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The results about one compile that a rule's `measure` may use.

    They are verdicts, findings of the static analysis, numbers, the baseline and the memory.
    """

    outputs: Mapping[str, Verdict]
    """Maps an output name to the verdict of the static analysis, in the program's order."""
    findings: tuple[Finding, ...]
    """The findings that the rules made from the analysis alone."""
    replay: Replay | None
    device: DeviceRun | None
    facts: ScheduleFacts | None = None
    """The schedule in the form that a baseline records, without names of instructions. Its neighbourhoods (the readers
    around each hidden write) are computed only if there is a baseline. With None, rules about a baseline find nothing.
    """
    recorded: ScheduleFacts | None = None
    """The facts of the same compile in the baseline; None without a baseline."""
    memory: MemoryUse | None = None
    """The memory that the program uses; None if unknown."""
    output_lines: Mapping[str, SourceLine] = field(default_factory=dict[str, SourceLine])
    """Maps an output name to the line that computes the output, where that is known."""
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    """The limits that the user sets for memory and copies."""

    @property
    def numbers(self) -> Replay | None:
        return self.replay if self.replay is not None and self.replay.state is ReplayState.DONE else None

    def find_line(self, names: Iterable[str]) -> SourceLine | None:
        """Returns the source line that computes one of these outputs: the first one with a known line.

        None if no line is known.
        """
        return next((self.output_lines[name] for name in names if name in self.output_lines), None)

    def findings_of(self, rule: str) -> Iterator[Finding]:
        return (finding for finding in self.findings if finding.rule == rule)


def render_error(error: float) -> str:
    """Returns a relative error as text, such as `2.5e-01`."""
    return f"{error:.1e}"


def render_difference(name: str, error: float, other: str, tolerance: float) -> str:
    """Returns a sentence that compares two computations of the output `name`.

    It says how much they differ and how much of that rounding explains. other: the name of the second computation.
    """
    return f"`{name}` differs by {error:.1e} from {other}; rounding explains {tolerance:.1e}"


class DecidedBy(Enum):
    """The evidence that a rule needs, such as the schedule or a replay."""

    SCHEDULE = "schedule"
    REPLAY = "replay"
    DEVICE = "device"
    BASELINE = "baseline"
    BUDGET = "budget"


class Party(StrEnum):
    """A party that the verdicts rely on, such as XLA.

    A mistake of a party does not show in a verdict, but a rule may find it.
    """

    NOBODY = "nobody"
    JAX = "JAX"
    XLA = "XLA"
    KERNEL = "kernel"
    OURS = "ligerdiag"


class RuleKind(StrEnum):
    """The kind of hazard that a rule finds.

    Code that treats the findings of some rules in a special way selects these rules by kind, not by id.
    """

    EARLY_READ = "early read"
    """A read that misses a hidden write because it reads the same bytes before the kernel runs."""
    COPY_READ = "read of a copy"
    """A read that misses a hidden write because it reads other bytes, or computes the value anew."""
    LATE_READ = "late read"
    """A read that sees a hidden write, but needs the value from before the write."""
    LUCKY_READ = "lucky read"
    """A read that gets the intended version although nothing orders it with the write."""
    HIDDEN_WRITE = "hidden write"
    """A hidden write itself: the cause of early, late and lucky reads, and of reads of a copy."""
    CALLER_WRITE = "write to the caller's bytes"
    """A hidden write that hits an argument which the caller keeps, or a constant."""
    DOUBLE_WRITE = "double write"
    """Two kernel calls that overwrite one value although the author means two values, or that XLA merged into one call."""
    CONTRADICTION = "contradicted declaration"
    """A declaration about a kernel call that does not hold."""
    RACE = "race"
    """Accesses to the same bytes at the same time, so that the device may compute more than one value."""
    TRIED_IN_PLACE = "tried in place"
    """A launcher that tries configurations of a kernel on bytes that it does not restore. The outputs of the first run on a
    device are then not compared with the verdicts.
    """
    SHARED_BYTES = "shared bytes"
    """Two values that XLA keeps in the same bytes, so that one is lost; the one that remains may be the right one."""
    CHANGED_BY_JAX = "changed by JAX"
    """A difference between the program as written and the program that JAX passes to XLA."""
    ROUNDING = "rounding"
    """A value that is read through an addition and a subtraction of the same term, which costs precision."""
    REFERENCE = "reference"
    """A program that already differs from the case's reference in program order."""
    COPY = "copy"
    """Copies of whole values; a comparison of two reports counts them by the bytes that they move."""
    DRIFT = "drift"
    """A difference from a recorded baseline."""
    BUDGET = "budget"
    """More memory or copies than the user allows."""
    QUESTION = "question to the author"
    """A note on a program that is right as written, unless its author means something else; it does not change the status
    of a case.
    """
    UNKNOWN_EFFECT = "unknown effect"
    """A custom call whose writes are unknown: a doubt rather than a mistake."""
    MIXED_DONATIONS = "mixed-up donations"
    """Donated arguments that JAX and XLA let share one buffer, so that a reader of one gets another."""
    OTHER = "other"


BEYOND_EXPECTATION = (RuleKind.DRIFT, RuleKind.BUDGET)
"""Kinds of rules that run only if an option of the run asks for them. Their findings count even in a case that is as
expected, and no file with known findings lists them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A whole case file. It is a test of a rule, and a part of the rule's page."""

    about: str
    """One sentence that says what the example shows."""
    code: str
    """Python source of the file; it defines `CASE`."""
    target: str = "h100"
    recorded: str = ""
    """Source of the file from which the baseline is recorded that `code` is checked against; empty without a baseline."""
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    """The limits of memory and copies that the example is checked with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A public bug report that a rule would have explained, and how much of it was reproduced."""

    report: str
    """Where the report is: `owner/repository#number`, or another reference."""
    case: str
    """Id of the case in cases/ that reproduces the report; empty if none does."""
    reproduced: str
    """The part of the report that was reproduced: a phrase without a full stop."""
    missing: str
    """The part of the report that was not reproduced: a phrase without a full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A kind of hazard, with its check and its texts.

    The texts become docs/rules/<id>-<name>.md and the answer of `ligerdiag explain <id>`.
    """

    id: str
    name: str
    """Name in lower case with hyphens; it reads well in "allow NAME"."""
    severity: Severity
    summary: str
    """One line in lower case, without a final stop."""
    what_it_does: str
    why: str
    what_to_do: str
    limits: str
    references: tuple[str, ...]
    bad: tuple[Example, ...]
    """Examples about which the rule must have a finding."""
    good: tuple[Example, ...]
    """Examples about which the rule must have no finding."""
    check: Callable[[Context], Iterable[Finding]]
    """Function that yields the rule's findings from the analysis alone, without a replay or a device run."""
    reproduced: tuple[Reproduction, ...] = ()
    """The public bug reports behind the rule."""
    measure: Callable[[Measured], Iterable[Finding]] | None = None
    """Function that yields the rule's findings from all results, including those of a replay, of a device run, and of a
    comparison with a baseline or a budget; they replace the findings of `check`. If this is None, the findings of
    `check` stay.
    """
    decided_by: DecidedBy = DecidedBy.SCHEDULE
    explains: Verdict | None = None
    """The verdict that findings of the rule explain. An output with that verdict is named by a finding of a rule that
    explains it, unless the analysis does not know the reason for the verdict.
    """
    party: Party = Party.NOBODY
    """For a rule about a mistake that can make the verdict and the numbers of an output contradict each other: the
    party that makes the mistake (see `report.disagreement_causes`). NOBODY for all other rules.
    """
    kind: RuleKind = RuleKind.OTHER
    for_maintainers: str = ""
    """The title of a bug report, in the words of those who maintain XLA or JAX, without a final stop; empty if the finding's
    own message is the title.
    """
    leaves_undefined: bool = False
    """Whether no schedule gives the outputs of a finding a defined value. Such outputs hold unwritten bytes, depend on
    the order of a grid's programs, come from a Ref that would have to hold two values at once, or may need the writes
    of a call that JAX dropped while it traced the program.
    """


def check_nothing(context: Context) -> Iterable[Finding]:
    """Yields no finding. Rules whose findings all come from `measure` use it as their `check`."""
    del context
    return ()


_IMPORTS = """\
import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case
"""

_CALL_IN_PLACE = """\
from ligerdiag.in_place import call_in_place
"""

_HIDDEN_CALL = """\
@triton.jit
def double_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)  # overwrites its operand


def sum_and_double(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=double_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


"""

_DECLARED_CALL = """\
@triton.jit
def aliased_kernel(x_ptr, sum_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)  # `spare_ptr` is for `call_in_place`


def sum_and_double_declared(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    sums, doubled = call_in_place(
        x, written=0, kernel=aliased_kernel, outputs=(sums,), grid=x.shape[:1], COLUMNS=x.shape[1]
    )
    return doubled, sums


"""

KERNEL = f"{_IMPORTS}\n\n{_HIDDEN_CALL}"
"""The first lines of an example that hides a write: imports, and the shared kernel with its call."""


def make_example(*, about: str, code: str, declared: bool = False, target: str = "h100") -> Example:
    """Returns an example that runs with every generation of jax-triton: `code` with imports and the shared kernel added.

    The code may call the shared kernel by `sum_and_double`, which hides the write. declared: whether it may also call
    `sum_and_double_declared`, which declares the write.
    """
    imports = _IMPORTS + (_CALL_IN_PLACE if declared or "call_in_place(" in code else "")
    hidden = _HIDDEN_CALL if re.search(r"\bsum_and_double\(|\bdouble_kernel\b", code) else ""
    return Example(about=about, code=f"{imports}\n\n{hidden}{_DECLARED_CALL if declared else ''}{code}", target=target)


ALIASED = make_example(
    about="The doubled rows are a declared output, and the reader reads that output.",
    declared=True,
    code="""\
def step(x, w):
    h = x @ w
    doubled, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": doubled @ w.T}


CASE = Case(name="declared", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)


def report_write(
    context: Context,
    rule: Rule,
    write: HiddenWrite,
    message: str,
    *,
    remedy: str = "",
    outputs: tuple[str, ...] = (),
    instructions: tuple[str, ...] = (),
    evidence: tuple[tuple[str, str], ...] = (),
    reader: ReadPlace | None = None,
) -> Finding:
    """Returns a finding about a hidden write, at the line of the kernel call.

    remedy: by default, to declare the write. outputs, instructions: names of the outputs and instructions that the
    finding is about. evidence: by default, which operand the call overwrites, and when. reader: the place of the read
    that the write affects; None if the finding is about no read.
    """
    call = locate_call(context, write)
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        message=message,
        outputs=outputs,
        source=call.line,
        kernel=write.kernel,
        operand=write.operand,
        instructions=instructions,
        evidence=evidence or (describe_write(context, write),),
        decided=tuple(name for name in outputs if name in context.verdicts.decided),
        help=remedy or describe_remedy(context, write),
        call=call,
        reader=reader,
    )


def report_outputs(
    context: Context,
    rule: Rule,
    write: HiddenWrite,
    names: Sequence[str],
    render_message: Callable[[Sequence[str]], str],
    *,
    remedy: str = "",
    needs_old: bool = False,
) -> Iterator[Finding]:
    """Yields findings about outputs that a hidden write makes wrong although no single read is to blame.

    If XLA merged two operations, the outputs that this makes wrong get one finding, at the line of the merged operation.
    All other outputs get one finding together.

    render_message: returns the message about the outputs with the given names. needs_old: whether the outputs need the
    contents from before the write.
    """
    for outputs, merged in group_by_merged(context, write, names):
        place = None if merged is None else replace(locate_merged(context, merged), needs_old=needs_old)
        yield report_write(
            context,
            rule,
            write,
            render_message(outputs),
            remedy=remedy,
            outputs=outputs,
            instructions=context.verdicts.list_mixing(outputs),
            evidence=() if merged is None else (describe_write(context, write), describe_merged(context, merged)),
            reader=place,
        )


def report_read(
    context: Context,
    rule: Rule,
    read: ReadFinding,
    message: str,
    sentence: str,
    *,
    remedy: str = "",
    outputs: tuple[str, ...] | None = None,
    needs_old: bool = False,
) -> Finding:
    """Returns a finding about a read that is wrong, or right only by luck.

    sentence: evidence about the read; the function adds the source line to it. outputs: by default all outputs that
    depend on the read. needs_old: whether the read needs the contents from before the write.
    """
    merged = None if read.wrong is None else find_merged_read(context, context.verdicts.comparison, read.wrong)
    place = replace(locate_read(context, read, merged), needs_old=needs_old)
    evidence = () if merged is None else (describe_merged(context, merged),)
    if read.wrong is not None and context.verdicts.in_part.intersection(read.outputs):
        evidence += (("note", f"which elements `{read.write.kernel}` writes is unknown: {_IN_PART}"),)
    sentence += render_at(place.line, in_backward=place.in_backward)
    found = report_write(
        context,
        rule,
        read.write,
        message,
        remedy=remedy,
        outputs=read.outputs if outputs is None else outputs,
        instructions=name_instructions(context, read),
        evidence=(describe_write(context, read.write), ("read", sentence), *evidence),
        reader=place,
    )
    return _soften(found, find_special(context, read), rule)


_IN_PART = "where it writes none of those that are read here, the read is right"


def _soften(found: Finding, special: Special, rule: Rule) -> Finding:
    """Returns the finding unchanged, or, if its read only tests the value for NaN or infinity, as a warning whose message
    says so.
    """
    if special is Special.NOTHING or not found.outputs or rule.explains is None or not rule.explains.is_wrong:
        return found
    value = f"the old value of operand {found.operand} of `{found.kernel}`"
    if rule.explains is Verdict.CLOBBERED:
        value = f"what `{found.kernel}` writes to operand {found.operand}"
    note = (
        f"the read has no other use: the numbers are right unless `{found.kernel}` creates or removes {special.value}"
    )
    return replace(
        found,
        severity=Severity.WARNING,
        message=describe_special(found.outputs, special, value),
        evidence=(*found.evidence, ("note", note)),
        decided=found.outputs,
    )
