"""Judges one kernel call of `ligerdiag.opcheck`: compares the call's declaration with the kernel's code and with the results
of runs.

The code gives an upper bound of the accesses to each operand. A run gives a lower bound of the accesses to some of
them. So

- a write that a run or the code shows must be declared;
- a declared write that the code does not have is a superfluous declaration;
- a run that shows more than the code has is a contradiction: ligerdiag misread the code, or other code ran.

A declaration is an alias of the call, which XLA knows, or an entry of `effects`, which only ligerdiag knows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ligerdiag.effects.access import Access, CallEffects, OperandUse, ReadsBeforeWrite, WriteCoverage
from ligerdiag.effects.call import explain_untrusted, find_aliased
from ligerdiag.effects.declared import Contradiction, DeclaredEffects, apply_declarations, find_declaration
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import iterate_leaf_shapes, render_shape
from ligerdiag.model.findings import SourceLine
from ligerdiag.model.opcheck_report import (
    BufferRow,
    CallRun,
    CheckedCall,
    FoundCall,
    OperandRun,
    OutputRun,
    Problem,
    ProblemKind,
    RunFailure,
    Seen,
)
from ligerdiag.text import count_of, join_words

_ALIAS = "alias the operand to an output (`ligerdiag.in_place.call_in_place`), and read the output instead"
_FILL = "write every element, or alias the output to an operand that holds the values to keep"
_ZERO = "zero the output (`zeroed_outputs`), or alias it to an operand that holds its initial values"
_MISREAD = "if the device ran the same code that ligerdiag read, this is a bug of ligerdiag: please report it"


@dataclass(slots=True, kw_only=True)
class JudgedCall:
    """A kernel call with its problems, the questions about it that could not be decided, and notes."""

    call: CheckedCall
    problems: list[Problem] = field(default_factory=list[Problem])
    not_covered: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operand:
    """One operand of a call: what is declared, what the code may do, and what the runs showed."""

    number: int
    shape: str
    output: int | None
    """The number of the output that aliases the operand; None if none does."""
    stated_write: bool
    """Whether `effects` say that the call writes the operand."""
    stated_read: bool
    """Whether `effects` allow the call to read the operand; true if they do not say."""
    is_stated: bool
    """Whether the code, or else an entry of `effects`, says what the call does with the operand."""
    access: Access
    """The access that the code may make through the pointer of the operand, or of the output that aliases the operand."""
    use: OperandUse
    stores: tuple[SourceLine, ...]
    run: OperandRun | None

    @property
    def is_declared(self) -> bool:
        return self.output is not None or self.stated_write

    @property
    def is_known(self) -> bool:
        return self.access is not Access.UNKNOWN

    @property
    def is_written(self) -> bool:
        """Returns whether a run showed a write."""
        return self.run is not None and self.run.is_written is Seen.YES

    @property
    def is_read(self) -> bool:
        """Returns whether a run showed a read."""
        return self.run is not None and self.run.is_read is Seen.YES


@dataclass(frozen=True, slots=True, kw_only=True)
class CallJudge:
    """Judges one kernel call. Uses the effects of the kernel's code, and a program that has only this call."""

    found: FoundCall
    call: HloInstruction
    effects: CallEffects
    """The effects that follow from the kernel's code alone, without declarations."""
    declarations: Sequence[DeclaredEffects] = ()
    """All declarations in `effects`, also those about other calls."""
    requires_run: bool = False
    """Whether a call without a run counts as not covered, even if no run failed."""

    def judge(self) -> JudgedCall:
        """Judges the call and returns it with its problems."""
        decided, contradictions = self._apply_declarations()
        operands = [self._describe(number, decided) for number in range(len(self.call.operands))]
        result = JudgedCall(call=self._tabulate(operands))
        for operand in operands:
            result.problems += self._judge_write(operand)
            result.problems += self._judge_read(operand)
        for contradiction in contradictions:
            result.problems += self._judge_contradiction(contradiction)
        for output in range(len(self.effects.outputs)):
            result.problems += self._judge_output(output)
        result.problems += self._judge_places(operands)
        if self.found.is_dropped:
            result.problems.append(_make_dropped(self.found))
        result.not_covered += self._list_undecided(operands, decided.reasons)
        if self.found.not_run:
            is_open = self.requires_run or self.found.failure is not RunFailure.NONE
            lines = result.not_covered if is_open else result.notes
            lines.append(f"`{self.found.kernel}` was not observed in a run: {self.found.not_run}")
        result.notes += self._list_notes()
        return result

    @property
    def _run(self) -> CallRun | None:
        return self.found.run

    def _apply_declarations(self) -> tuple[CallEffects, tuple[Contradiction, ...]]:
        """Returns the effects of the call with those declared where the code is UNKNOWN, and the contradictions."""
        return apply_declarations(
            self.effects,
            target=self.call.proto.custom_call_target,
            declarations=self.declarations,
            aliased=find_aliased(self.call),
            untrusted=explain_untrusted(self.call),
        )

    def _describe(self, number: int, decided: CallEffects) -> _Operand:
        output = self.call.aliasing_outputs.get(number)
        access, use = self.effects.operands[number], self.effects.operand_uses[number]
        if output is not None:
            access = access.cover(self.effects.outputs[output])
        target = self.call.proto.custom_call_target
        stated = find_declaration(self.declarations, target=target, kernel=self.effects.kernel)
        writes = frozenset[int]() if stated is None or stated.writes is None else stated.writes
        return _Operand(
            number=number,
            shape=render_shape(self.call.operands[number].shape),
            output=output,
            stated_write=number in writes,
            stated_read=stated is None or stated.reads is None or number in stated.reads,
            is_stated=decided.operands[number] is not Access.UNKNOWN,
            access=access,
            use=use,
            stores=self.effects.operand_stores[number],
            run=self._run.operands[number] if self._run is not None else None,
        )

    def _judge_write(self, operand: _Operand) -> Iterator[Problem]:
        name = f"operand {operand.number}, `{operand.shape}`"
        code = operand.is_known and operand.access.writes
        evidence = (*_describe_run(operand), *(_describe_code(operand) if code else ()))
        if not operand.is_declared and (operand.is_written or code):
            yield self._make(
                ProblemKind.UNDECLARED_WRITE,
                f"`{self.found.kernel}` writes {name}, and no output aliases it",
                evidence,
                _ALIAS,
                operand.stores,
            )
        if operand.is_written and operand.is_known and not operand.access.writes:
            yield self._make(
                ProblemKind.CONTRADICTION,
                f"`{self.found.kernel}` wrote {name} in a run, but its code has no such write",
                evidence,
                _MISREAD,
            )
        if operand.is_declared and operand.is_known and not operand.access.writes and not operand.is_written:
            yield self._make(
                ProblemKind.NEVER_WRITTEN,
                f"`{self.found.kernel}` declares that it writes {name}, but its code has no such write",
                ("code: no store through the pointer of that operand", *_describe_run(operand)),
                "remove the declaration: it costs a copy wherever the program reads the old value later",
            )

    def _judge_read(self, operand: _Operand) -> Iterator[Problem]:
        name = f"operand {operand.number}, `{operand.shape}`"
        code = operand.is_known and operand.access.reads
        evidence = (
            *(("run: other contents of the operand led to other results",) if operand.is_read else ()),
            *(("code: a load through the pointer of that operand",) if code else ()),
        )
        if not operand.stated_read and (operand.is_read or code):
            yield self._make(
                ProblemKind.UNDECLARED_READ,
                f"`{self.found.kernel}` reads {name}, which `reads` in its declared effects leaves out",
                evidence,
                f"add {operand.number} to `reads`",
            )
        if operand.is_read and operand.is_known and not operand.access.reads:
            yield self._make(
                ProblemKind.CONTRADICTION,
                f"`{self.found.kernel}` read {name} in a run, but its code has no such read",
                evidence,
                _MISREAD,
            )

    def _judge_contradiction(self, contradiction: Contradiction) -> Iterator[Problem]:
        """Yields the problem of an entry of `effects` that contradicts the call, unless `_judge_write` or `_judge_read`
        names it.
        """
        number, count = contradiction.operand, len(self.call.operands)
        if number >= count:
            yield self._make(
                ProblemKind.NO_OPERAND,
                f"`effects` for `{contradiction.target}` name operand {number}, which `{self.found.kernel}` lacks",
                (f"call: {count_of(count, 'operand')}, numbered from 0",),
                "declare the operands of this call, under the name of its kernel",
            )
        elif number in self.call.aliasing_outputs and contradiction.found.writes and not contradiction.declared.writes:
            yield self._make(
                ProblemKind.UNDECLARED_WRITE,
                f"`{self.found.kernel}` writes operand {number}, which `writes` in its declared effects leaves out",
                (f"call: output {self.call.aliasing_outputs[number]} aliases the operand",),
                f"add {number} to `writes`",
                self.effects.operand_stores[number],
            )

    def _judge_output(self, output: int) -> Iterator[Problem]:
        if output in self.call.aliasing_outputs.values():
            return
        use, access = self.effects.output_uses[output], self.effects.outputs[output]
        run = self._run.outputs[output] if self._run is not None else None
        is_left = run is not None and run.is_left is Seen.YES
        never = use.coverage is WriteCoverage.NONE and access in (Access.NONE, Access.READ)
        partial = use.coverage is WriteCoverage.PARTIAL
        evidence: list[str] = []
        if is_left and run is not None:
            evidence.append(f"run: {run.left} of {run.elements} elements kept the canary, from element {run.first} on")
        if never or partial:
            what = "no store through its pointer" if never else "the stores skip some elements, whatever the data"
            evidence.append(f"code: {what}")
        if is_left and use.coverage is WriteCoverage.COMPLETE:
            yield self._make(
                ProblemKind.CONTRADICTION,
                f"`{self.found.kernel}` left elements of output {output} unwritten in a run, but its code writes all",
                evidence,
                _MISREAD,
            )
        elif is_left or never or partial:
            yield self._make(
                ProblemKind.UNWRITTEN_OUTPUT,
                f"`{self.found.kernel}` leaves elements of output {output} unwritten",
                evidence,
                _FILL,
            )
        if use.old_read is not None:
            line = use.old_read.line
            yield self._make(
                ProblemKind.OLD_OUTPUT,
                f"`{self.found.kernel}` reads output {output} before it writes it",
                () if line is not None else ("code: a load through its pointer",),
                _ZERO,
                () if line is None else (line,),
            )

    def _judge_places(self, operands: Sequence[_Operand]) -> Iterator[Problem]:
        """Yields the problems of accesses outside of the buffers, and of reads of outputs that nobody wrote."""
        for operand in operands:
            if operand.run is not None and operand.run.outside:
                yield self._make(
                    ProblemKind.OUTSIDE,
                    f"`{self.found.kernel}` writes outside of operand {operand.number}",
                    (f"run: {operand.run.outside} guard bytes beside the operand changed",),
                    "mask the store",
                )
        uses = (*self.effects.operand_uses, *self.effects.output_uses)
        for number, use in enumerate(uses):
            count = len(self.effects.operands)
            place = f"operand {number}" if number < count else f"output {number - count}"
            for one in use.outside:
                yield self._make(
                    ProblemKind.OUTSIDE,
                    f"`{self.found.kernel}` accesses memory outside of {place}",
                    (f"code: a {one.kind.value} outside of the buffer, whatever the data",),
                    "mask the access",
                    () if one.line is None else (one.line,),
                )
        if self._run is not None and self._run.reads_outside:
            yield self._make(
                ProblemKind.OUTSIDE,
                f"`{self.found.kernel}` reads outside of an operand",
                ("run: other guard bytes beside the operands led to other results",),
                "mask the load",
            )
        if self._run is not None and self._run.reads_old_outputs:
            yield self._make(
                ProblemKind.OLD_OUTPUT,
                f"`{self.found.kernel}` uses the contents that an output has before the call",
                ("run: another canary in the outputs led to other results",),
                _ZERO,
            )

    def _list_undecided(self, operands: Sequence[_Operand], reasons: Sequence[str]) -> Iterator[str]:
        """Yields a line on the operands of which neither code, declaration nor run decides whether the call writes them. A
        run without a write does not decide it. reasons: why they are not decided.
        """
        undecided = [one for one in operands if not (one.is_known or one.is_stated or one.is_written)]
        numbers = [one.number for one in undecided if one.output is None]
        if numbers:
            names = f"operand{'s' * (len(numbers) > 1)} {join_words([str(number) for number in numbers])}"
            reason = "; ".join(reasons) or "its code could not be read"
            yield f"whether `{self.found.kernel}` writes {names}: {reason}"

    def _list_notes(self) -> Iterator[str]:
        kernel = self.found.kernel
        for output, use in enumerate(self.effects.output_uses):
            run = self._run.outputs[output] if self._run is not None else None
            is_open = run is None or run.is_left is Seen.UNTESTED
            if is_open and output not in self.call.aliasing_outputs.values() and use.coverage is WriteCoverage.UNKNOWN:
                yield f"whether `{kernel}` writes all of its output {output} does not follow from its code"
        if self._run is not None and self._run.unsteady:
            names = ", ".join(self._run.unsteady)
            yield f"two runs of `{kernel}` with the same operands left different bytes in {names}"
        observed = () if self._run is None else self._run.operands
        bare = [str(number) for number, one in enumerate(observed) if one.elements and not one.is_guarded]
        if bare:
            names, them = f"operand{'s' * (len(bare) > 1)} {join_words(bare)}", "them" if len(bare) > 1 else "it"
            yield f"{names} of `{kernel}` had no guard bytes: writes beside {them} would not be seen"

    def _make(
        self,
        kind: ProblemKind,
        message: str,
        evidence: Sequence[str],
        remedy: str,
        lines: tuple[SourceLine, ...] = (),
    ) -> Problem:
        return Problem(
            kind=kind,
            kernel=self.found.kernel,
            message=message,
            evidence=tuple(evidence),
            lines=lines,
            help=remedy,
            source=self.found.source,
        )

    def _tabulate(self, operands: Sequence[_Operand]) -> CheckedCall:
        rows = [
            BufferRow(
                name=f"operand {one.number}",
                shape=one.shape,
                declared=_render_declared(one),
                code=_render_access(one.access),
                seen=_render_operand_run(one.run),
            )
            for one in operands
        ]
        for output, (_, shape) in enumerate(iterate_leaf_shapes(self.call.shape)):
            operand = next((key for key, value in self.call.aliasing_outputs.items() if value == output), None)
            rows.append(
                BufferRow(
                    name=f"output {output}",
                    shape=render_shape(shape),
                    declared="written" if operand is None else f"operand {operand}",
                    code=_render_output(self.effects.outputs[output], self.effects.output_uses[output])
                    if operand is None
                    else "",
                    seen=_render_output_run(self._run.outputs[output]) if self._run and operand is None else "",
                )
            )
        return CheckedCall(
            kernel=self.found.kernel,
            source=self.found.source,
            rows=tuple(rows),
            runs=self._run.runs if self._run is not None else 0,
        )


def judge_unread(found: FoundCall, reason: str) -> JudgedCall:
    """Returns the judgement of a call that could not be lowered as a program of its own. It says that the call is not
    covered.

    reason: why it could not be lowered.
    """
    result = JudgedCall(call=CheckedCall(kernel=found.kernel, source=found.source, rows=()))
    result.not_covered.append(f"`{found.kernel}`: {reason}")
    if found.is_dropped:
        result.problems.append(_make_dropped(found))
    return result


def _make_dropped(found: FoundCall) -> Problem:
    return Problem(
        kind=ProblemKind.DROPPED,
        kernel=found.kernel,
        message=f"JAX drops the call of `{found.kernel}`, because nothing uses its outputs",
        help="return an output of the call, or declare its write, which adds an output, and use that output",
        source=found.source,
    )


def _describe_run(operand: _Operand) -> Iterator[str]:
    run = operand.run
    if run is None:
        return
    if run.is_written is Seen.YES:
        yield f"run: {run.written} of {run.elements} elements changed, from element {run.first} to {run.last}"
    elif run.is_written is Seen.NO:
        yield "run: no element changed"
    else:
        yield "run: XLA passed a copy of the operand, so that a write would not be seen"


def _describe_code(operand: _Operand) -> tuple[str, ...]:
    """Returns a line on the stores of the code, unless their places are known."""
    return () if operand.stores else ("code: a store through the pointer of that operand",)


def _render_declared(operand: _Operand) -> str:
    if operand.output is not None:
        return f"written, output {operand.output}"
    if operand.stated_write:
        return "written, in `effects` alone"
    return "not written"


def _render_access(access: Access) -> str:
    match access:
        case Access.NONE:
            return "not used"
        case Access.READ:
            return "read"
        case Access.WRITE:
            return "written"
        case Access.READ_WRITE:
            return "read, written"
        case Access.UNKNOWN:
            return "unknown"


def _render_output(access: Access, use: OperandUse) -> str:
    if access is Access.UNKNOWN:
        return "unknown"
    words = {
        WriteCoverage.NONE: "not written",
        WriteCoverage.COMPLETE: "all written",
        WriteCoverage.PARTIAL: "partly written",
        WriteCoverage.UNKNOWN: "written, perhaps not all",
    }[use.coverage]
    return f"read, {words}" if use.reads_before_write is ReadsBeforeWrite.YES else words


def _render_operand_run(run: OperandRun | None) -> str:
    if run is None:
        return ""
    read = {Seen.YES: "read", Seen.NO: "not seen to be read", Seen.UNTESTED: "reads not tested"}[run.is_read]
    if run.is_written is Seen.YES:
        return f"{read}, wrote {run.written} of {run.elements}"
    return f"{read}, writes not tested" if run.is_written is Seen.UNTESTED else read


def _render_output_run(run: OutputRun) -> str:
    match run.is_left:
        case Seen.YES:
            return f"wrote {run.elements - run.left} of {run.elements}"
        case Seen.NO:
            return "all written"
        case Seen.UNTESTED:
            return "not tested"
