"""LD033 over-budget: the program needs more memory, or copies more bytes, than the user allows."""

from collections.abc import Iterator

from ligerdiag.model.findings import Finding, Severity, SourceLine
from ligerdiag.model.memory import Copy, CopyCause, LiveValue, MemoryUse
from ligerdiag.model.memory_limits import MemoryBudgets, compute_needed
from ligerdiag.rules.rule import DecidedBy, Example, Measured, Rule, RuleKind, check_nothing
from ligerdiag.source_text import compute_place
from ligerdiag.text import render_bytes

_SHOWN = 5


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields a finding for each exceeded budget: that of the memory, and that of the copied bytes."""
    memory, budgets = measured.memory, measured.budgets
    if memory is None:
        return
    if budgets.memory is not None and compute_needed(memory) > budgets.memory:
        yield _report_memory(memory, budgets.memory)
    if budgets.copies is not None and memory.copied > budgets.copies:
        yield _report_copies(memory, budgets.copies)


def _report_memory(memory: MemoryUse, budget: int) -> Finding:
    needed = compute_needed(memory)
    largest = memory.at_peak[0] if memory.at_peak else None
    there = f"; the largest at the peak is {_describe_value(largest)}" if largest is not None else ""
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"one call needs {_describe_excess(needed, budget)} than the memory budget allows{there}",
        source=next((value.line for value in memory.at_peak if value.line is not None), memory.peak_line),
        instructions=(largest.instruction,) if largest is not None else (),
        evidence=(
            ("budget", f"{render_bytes(budget)} of memory"),
            ("needs", _describe_parts(memory)),
            ("peak", f"{render_bytes(memory.peak)} are alive at one time" + _while(memory.peak_at)),
            *(("alive", _describe_value(value)) for value in memory.at_peak[:_SHOWN]),
        ),
        help=_find_remedy(memory, needed - budget),
    )


def _report_copies(memory: MemoryUse, budget: int) -> Finding:
    is_less, is_more = any(copy.in_branch for copy in memory.copies), any(copy.trips is None for copy in memory.copies)
    bound = "" if is_less == is_more else "up to " if is_less else "at least "
    largest = max(memory.copies, key=lambda copy: copy.total)
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=(
            f"one call copies {bound}{_describe_excess(memory.copied, budget)} than the copy budget allows;"
            f" the largest copy is {_describe_copy(largest)}"
        ),
        source=next((copy.line for copy in memory.copies if copy.line is not None), None),
        instructions=(largest.instruction,),
        evidence=(
            ("budget", f"{render_bytes(budget)} of copies in one call"),
            *(("copy", _describe_copy(copy)) for copy in memory.copies[:_SHOWN]),
        ),
        help=_find_remedy_for_copy(largest),
    )


def _find_remedy_for_copy(largest: Copy) -> str:
    if largest.is_needed:
        return (
            "the program as written needs its largest copy: keep no value that a later operation overwrites, or"
            " raise the budget"
        )
    return f"remove the largest copy: {largest.why or f'%{largest.instruction} changes nothing in what it copies'}"


def _describe_excess(size: int, budget: int) -> str:
    return f"{render_bytes(size)}, {render_bytes(size - budget)} more"


def _describe_parts(memory: MemoryUse) -> str:
    shared = f" ({render_bytes(memory.aliased)} of them in donated arguments)" if memory.aliased else ""
    parts = [
        f"arguments {render_bytes(memory.arguments)}",
        f"outputs {render_bytes(memory.outputs)}{shared}",
        f"temporaries {render_bytes(memory.temporaries)}",
    ]
    return ", ".join([*parts, *([f"constants {render_bytes(memory.constants)}"] if memory.constants else [])])


def _describe_value(value: LiveValue) -> str:
    shape = f" {value.shape}" if value.shape else ""
    return f"{value.about}{shape}, {render_bytes(value.bytes)}{_at(value.line)}"


def _describe_copy(copy: Copy) -> str:
    times = f", {copy.trips} times" if copy.trips is not None and copy.trips > 1 else ""
    times = ", in a loop of unknown length" if copy.trips is None else times
    times += ", if its branch runs" if copy.in_branch else ""
    way = f" from {copy.source} to {copy.target}" if copy.source and copy.target else ""
    cause = "" if copy.cause is CopyCause.UNKNOWN else f", {copy.cause.value}"
    return f"{render_bytes(copy.bytes)}{way}{times}{cause}{_at(copy.line)}"


def _at(line: SourceLine | None) -> str:
    return f" ({compute_place(line)})" if line is not None else ""


def _while(instruction: str) -> str:
    return f", while %{instruction} runs" if instruction else ""


def _find_remedy(memory: MemoryUse, excess: int) -> str:
    """Returns the advice to donate if donation alone can save `excess` bytes; otherwise the advice for the larger of
    temporaries and arguments. excess: bytes above the budget.
    """
    if min(memory.arguments, memory.outputs) - memory.aliased >= excess:
        return "donate the arguments that the outputs replace: `jax.jit(..., donate_argnums=...)`"
    if memory.temporaries >= memory.arguments:
        return "shard the largest temporaries, or compute them again where they are read: `jax.checkpoint`"
    return "shard the largest arguments over more devices, or keep them in a smaller dtype"


_STEP = """\
import jax.numpy as jnp

from ligerdiag import Arg, Case


def step(state, x):
{body}


CASE = Case(name="{name}", function=step, args=(Arg(shape=(512, 512){donate}), Arg(shape=(512, 512))))
"""

TOO_MUCH = Example(
    about="The step keeps the old state, so its new one needs a megabyte of its own.",
    code=_STEP.format(name="kept", donate="", body="    return jnp.tanh(state) + x"),
    budgets=MemoryBudgets(memory=5 << 19),
)

DONATED = Example(
    about="The state is donated, and the new one takes its bytes.",
    code=_STEP.format(name="given_away", donate=", donate=True", body="    return jnp.tanh(state) + x"),
    budgets=MemoryBudgets(memory=5 << 19, copies=0),
)

COPIED = Example(
    about="The caller keeps the state, so XLA copies it before one row of it is overwritten.",
    code=_STEP.format(name="copied_first", donate="", body="    return state.at[0].set(x[0])"),
    budgets=MemoryBudgets(copies=1 << 16),
)

RULE = Rule(
    id="LD033",
    name="over-budget",
    severity=Severity.ERROR,
    kind=RuleKind.BUDGET,
    summary="the program needs more memory, or copies more bytes, than the budget allows",
    what_it_does="""\
With `--memory-budget SIZE`, compares the memory that one call of each program needs on one device: its arguments and
outputs, of which donated ones count once, its temporaries as XLA reserves them, and its constants. With
`--copy-budget SIZE`, compares the bytes that one call copies: each copy times the trip count of the loops around it.
Both can be set in `[tool.ligerdiag]` as `memory_budget` and `copy_budget`.""",
    why="""\
A program that needs more than the device has fails at the start of a job, often hours after it was queued. A copy costs
time in every step and fails nothing, so an upgrade of XLA or a new line of code can add one without anyone noticing.""",
    what_to_do="""\
The finding names the parts, and the largest values that are alive when most memory is in use, each with its line. Donate
what the outputs replace, compute large temporaries again where they are read, or shard them. For copies, the other rules
say why each is made.""",
    limits="""\
XLA reserves the temporaries as one block, so the budget is compared with the reserved bytes, not with the peak of the
live ones, which is smaller. The memory of the runtime, of NCCL, of other programs and of arguments of other calls is not
in it: allow for that. Copies below 64 KiB are not counted. If a loop's trip count is unknown, its copies count
once; copies in branches count as if every branch ran. Where the memory of a program is unknown, the
coverage says so. A case that is as expected fails, too.""",
    references=("docs/compare.md",),
    bad=(TOO_MUCH, COPIED),
    good=(DONATED,),
    check=check_nothing,
    measure=measure,
    decided_by=DecidedBy.BUDGET,
)
