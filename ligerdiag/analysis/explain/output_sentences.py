"""Describes outputs for a reader who has never seen HLO: where their values come from, what is wrong with them, or the
reason why it is unknown whether they are right.

A sentence says what the analysis knows: where a value is read, whether before or after the kernel runs, and whether
something forces that order. The analysis does not know what the kernel computes, or the resulting numbers.
"""

from collections import defaultdict
from dataclasses import dataclass

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluation.ambiguities import Ambiguity, Reason, skip_barrier
from ligerdiag.analysis.explain.sharing_sentences import describe_pair
from ligerdiag.analysis.value_flow import ValueFlow, name_written
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.analysis.verdict.verdicts import Verdicts
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.custom_calls import CallTrait, has_trait
from ligerdiag.hlo.dataflow import Definition
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import BufferAccess, Place, ReadKind
from ligerdiag.text import count_of, join_words


def describe_untraced(context: Context) -> tuple[str, ...]:
    """Returns one line for each hidden write whose operand's old value was not found in the schedule. Writes that make no
    output unknown are left out.
    """
    verdicts = context.verdicts
    unknown = {c.write for o in verdicts.outputs.values() for c in o.causes if c.verdict is Verdict.UNKNOWN}
    lines = [
        f"the value of operand {write.operand} of `{write.kernel}`{_render_call(context, write)} from before the write was"
        f" not found in the schedule: it is unknown whether readers get it; {_advise(write)}"
        for write in context.writes
        if write.index in unknown and not write.unknown and write.index not in verdicts.comparison.traced
    ]
    return tuple(dict.fromkeys(lines))


def _advise(write: HiddenWrite) -> str:
    """Returns the next step, with the library that made the call."""
    if has_trait(write.call.proto.custom_call_target, CallTrait.JAX_TRITON | CallTrait.JAX_TRITON_FFI):
        return "declare the write (`ligerdiag.in_place.call_in_place`), then it can be decided"
    return f"declare an output that aliases operand {write.operand} and use that output, then it can be decided"


def _render_call(context: Context, write: HiddenWrite) -> str:
    line = context.find_call_line(write)
    return "" if line is None else f" ({line.file}:{line.line})"


def describe_ambiguities(pair: EvaluatedPair, verdicts: Verdicts) -> tuple[str, ...]:
    """Returns one line for each ambiguity: the open question, and the outputs that are unknown because of it. The
    question is about the author's intention, or about an instruction."""
    outputs: defaultdict[Ambiguity, list[str]] = defaultdict(list)
    for name, ambiguities in verdicts.ambiguities.items():
        for ambiguity in sorted(ambiguities, key=lambda d: (d.write, d.reason.value, d.instruction)):
            outputs[ambiguity].append(name)
    if not outputs:
        return ()
    instructions = [{one.id: one for one in module.instructions} for module in (pair.program, pair.optimized)]
    return tuple(
        _describe(pair, one, instructions[one.reason in _OF_OPTIMIZED].get(one.instruction), names)
        for one, names in outputs.items()
    )


_OF_OPTIMIZED = frozenset({Reason.AMBIGUOUS, Reason.UNSURE, Reason.UNIDENTIFIED, Reason.TWIN_OPERANDS})


def _describe(pair: EvaluatedPair, ambiguity: Ambiguity, instruction: HloInstruction | None, names: list[str]) -> str:
    write = pair.writes[ambiguity.write]
    reader = f"`%{instruction.name}`" if instruction is not None else "an instruction"
    value = skip_barrier(write.call.operands[write.operand]).name
    listed = ", ".join(f"`{name}`" for name in names)
    match ambiguity.reason:
        case Reason.DERIVATIVE:
            when = f"from before or from after `{write.kernel}` overwrites it"
            why = f"whether {reader} should read `%{value}` {when}"
        case Reason.NO_NAMES:
            unnamed = f"{reader}, which has no name, is a derivative that reads `%{value}`"
            why = f"whether {unnamed} from before `{write.kernel}` overwrites it (save the text with `debug_info=True`)"
        case Reason.OTHER_FORM:
            form = f"a reshape or cast of `%{value}` from before `{write.kernel}` overwrites it"
            why = f"whether {reader} should read {form}, or from afterwards"
        case Reason.CONSTANT:
            why = f"which uses of constants that MLIR merged should see that `{write.kernel}` overwrites `%{value}`"
        case Reason.AMBIGUOUS:
            why = f"which operation {reader} computes, and so whether it should see what `{write.kernel}` wrote"
        case Reason.UNSURE:
            wanted = f"whether it should see what `{write.kernel}` wrote"
            why = f"whether {reader} is the author's operation or made by XLA, and so {wanted}"
        case Reason.NO_METADATA:
            why = f"which operation each instruction computes, and so which should see what `{write.kernel}` wrote"
        case Reason.TOO_MANY:
            why = f"whether these outputs depend on operations that `{write.kernel}` makes wrong (too many to search)"
        case Reason.UNIDENTIFIED:
            why = f"whether {reader}, whose metadata cannot be trusted, computes what `{write.kernel}` overwrites"
        case Reason.RECOMPUTED:
            new = f"the value that a call of `{write.kernel}`, dropped by JAX, would have left in its place"
            recomputed = f"{reader}, which is `%{value}` recomputed by `jax.checkpoint`,"
            why = f"whether {recomputed} should have the value from before the write, or {new}"
        case Reason.TWIN_OPERANDS:
            why = f"what {reader} reads in the operand that XLA merged with `%{value}`, which `{write.kernel}`"
            why = f"{why} overwrites"
        case Reason.MIXED:
            why = f"whether a loop or branch returns `%{value}` after `{write.kernel}`, or a value that XLA merged with it"
    return f"it is unknown {why}: {listed}"


@dataclass(slots=True, eq=False)
class OutputSentences:
    """Writes one sentence about each output of one schedule."""

    context: Context
    accesses: tuple[BufferAccess, ...]

    @property
    def flow(self) -> ValueFlow:
        return self.context.followed.flow

    def describe(self, name: str, number: int) -> str:
        """Returns the sentence about one output. name, number: the output's name, and its 0-based number among the
        program's outputs.
        """
        verdict = self.context.verdicts.outputs[name].verdict
        if text := self.describe_other_cause(name, number):
            return f"`{name}` {text}"
        match verdict:
            case Verdict.FRESH:
                text = self._describe_fresh(number)
            case Verdict.LATENT:
                text = self._describe_latent(name)
            case Verdict.UNKNOWN:
                text = self._describe_unknown(name)
            case Verdict.CLOBBERED:
                text = self._describe_clobbered(name)
            case Verdict.STALE:
                text = self._describe_stale(name)
        return f"`{name}` {text}"

    def _describe_fresh(self, number: int) -> str:
        labels = self.context.actual.outputs[number] if number < len(self.context.actual.outputs) else 0
        space = self.context.space
        written = [w for w in self.context.writes if labels & space.all_fresh(w.index)]
        if written:
            by = join_words([f"`{kernel}`" for kernel in dict.fromkeys(w.kernel for w in written)])
            return f"is computed from what {by} wrote, and dependences force that order"
        original = [w for w in self.context.writes if labels & space.all_original(w.index)]
        if original:
            value = join_words(list(dict.fromkeys(self._name_value(w) for w in original)))
            by = join_words([f"`{kernel}`" for kernel in dict.fromkeys(w.kernel for w in original)])
            return f"is computed from {value} as it is before {by} overwrites it, which is intended"
        returned = self._find_returned(number)
        if returned:
            return f"is computed from what {returned} returns, and from nothing that a kernel overwrites"
        return "does not depend on what a kernel overwrites"

    def _find_returned(self, number: int) -> str:
        """Returns the names of the kernels whose results this output is computed from, as text; empty if there are
        none.
        """
        reach, found = self.flow.compute_reach(), dict[str, None]()
        for one in self.context.followed.performed:
            nodes = set(self.flow.list_nodes(one.kernel)) - {name_written(one.write.index, one.kernel)}
            if any(reach[node] >> number & 1 for node in nodes):
                found[f"`{one.write.kernel}`"] = None
        return join_words(list(found))

    def _describe_latent(self, name: str) -> str:
        finding = _find_first(self.context.verdicts.latent, name)
        if finding is None or finding.lucky is None:
            return "is right in this schedule by luck: nothing orders a kernel and a reader of its operand"
        reader, value = self._name_step(finding.reader.id), self._name_value(finding.write)
        kernel = finding.write.kernel
        steps = self._count_steps(finding.reader.id, finding.write.index, is_after=finding.lucky.after)
        when = f"{steps} {'after' if finding.lucky.after else 'before'} `{kernel}` overwrites it"
        return (
            f"is right in this schedule by luck: {reader} happens to read {value}{when}, and nothing forces that order"
        )

    def _describe_unknown(self, name: str) -> str:
        causes = [c for c in self.context.verdicts.outputs[name].causes if c.verdict is Verdict.UNKNOWN]
        unknown = [w for w in self.context.writes if w.unknown and any(c.write == w.index for c in causes)]
        if any(cause.raced for cause in causes):
            write = self.context.writes[next(cause.write for cause in causes if cause.raced)]
            return (
                f"may get the old or the new value: `{write.kernel}` and a read of {self._name_value(write)}, which it"
                " overwrites, may run at the same time"
            )
        if unknown:
            operands = join_words([str(w.operand) for w in unknown if w.kernel == unknown[0].kernel])
            return f"could not be decided: it is unknown whether `{unknown[0].kernel}` overwrites operand {operands}"
        if not self.context.has_program:
            return (
                "could not be decided: it may depend on a value that a kernel overwrites, and without the program as written"
                " it is unknown which version it needs"
            )
        more = (
            "; a line under `not covered` says why" if self.context.verdicts.ambiguities.get(name) or not causes else ""
        )
        kernels = dict.fromkeys(self.context.writes[cause.write].kernel for cause in causes)
        by = f" `{next(iter(kernels))}`" if kernels else " a kernel"
        return (
            f"could not be decided:{by} overwrites an operand, and it is unknown which version of the operand this output"
            f" needs or gets{more}"
        )

    def describe_other_cause(self, name: str, number: int) -> str:
        """Returns the end of the sentence about an output that is wrong without any hidden write. Then JAX has lost a write
        to a Ref, or XLA keeps two values in the same bytes. Returns '' for an output that is right, or wrong because of a
        hidden write.
        """
        output = self.context.verdicts.outputs[name]
        if any(cause.verdict is output.verdict for cause in output.causes):
            return ""
        lost = [one for one in self.context.lost_refs if name in one.outputs and one.verdict is output.verdict]
        if lost:
            writer = f"`{lost[0].kernel}`" if lost[0].kernel else "a store"
            if lost[0].is_dropped(self.context.moved_refs):
                return f"is wrong: JAX recomputes the forward pass without {writer}, which writes to a Ref"
            return f"is wrong: JAX separated the write of {writer} to a Ref from its reader before XLA saw the program"
        pair = next((one for one in self.context.shared if number in one.outputs), None)
        if pair is None or output.verdict is not Verdict.CLOBBERED:
            return ""
        return f"is wrong: {describe_pair(pair)}"

    def _describe_clobbered(self, name: str) -> str:
        access = self._find_access(name, ReadKind.CLOBBERED)
        finding = _find_first(self.context.verdicts.clobbered, name)
        if finding is not None:
            reader, write = finding.reader.id, finding.write
        elif access is not None:
            reader, write = access.step, self.context.writes[access.buffer]
        else:
            kernel = self._name_kernel(name, Verdict.CLOBBERED)
            return f"is wrong: it sees what {kernel} wrote, but needs the old value"
        steps = self._count_steps(reader, write.index, is_after=True)
        return (
            f"is wrong: it needs {self._name_value(write)} from before `{write.kernel}` overwrote it, but"
            f" {self._name_step(reader)} reads it{steps} after that and gets what the kernel wrote"
        )

    def _describe_stale(self, name: str) -> str:
        access = self._find_access(name, ReadKind.STALE)
        finding = _find_first(self.context.verdicts.stale, name) or self._find_same(access)
        kernel = self._name_kernel(name, Verdict.STALE)
        is_unnamed = finding is None or finding.write in self.context.matching.missing
        if is_unnamed and self.context.verdicts.misses_merged_call(name):
            return f"is wrong: XLA merged two calls of {kernel}, so the write of the second call is missing"
        if is_unnamed and self.context.verdicts.misses_only_gone_calls(name):
            return f"is wrong: {kernel} does not run, so its write is missing"
        if finding is None or finding.wrong is None:
            if access is not None:
                value = self._name_value(self.context.writes[access.buffer])
                return f"is wrong: {self._name_step(access.step)} does not read what {kernel} wrote to {value}"
            return f"is wrong: it misses what {kernel} wrote, and it is unknown which reader misses it"
        reader, value = self._name_step(finding.reader.id), self._name_value(finding.write)
        match finding.wrong.place:
            case Place.SAME_BYTES:
                steps = self._count_steps(finding.reader.id, finding.write.index, is_after=False)
                return f"is wrong: {reader} reads {value}{steps} before {kernel} overwrites it, and so misses the write"
            case Place.COPY:
                return f"is wrong: {reader} reads {self._describe_copy(finding)}: it misses what the kernel wrote"
            case Place.RECOMPUTED:
                return (
                    f"is wrong: {reader} does not read {value}, which {kernel} overwrites: it recomputes the value, or gets"
                    " it from elsewhere"
                )

    def _describe_copy(self, finding: ReadFinding) -> str:
        """Returns a phrase that names the value which a reader reads in other bytes than the overwritten ones, and says
        which of the two values was made from the other.
        """
        kernel, value = f"`{finding.write.kernel}`", self._name_value(finding.write)
        definition = self._find_read(finding)
        if definition is None:
            return f"other bytes than {value}, which {kernel} overwrites"
        read = self._name_step(definition[0])
        for one in self.context.followed.performed:
            if one.write.index == finding.write.index:
                overwritten = one.overwritten.definition
                if self.flow.find_path((overwritten,), lambda node: node == definition):
                    return f"{read}, but {kernel} overwrites {value}, which was made from {read}"
                if self.flow.find_path((definition,), lambda node, overwritten=overwritten: node == overwritten):
                    return f"{read}, which was made from {value}, but {kernel} overwrites {value} alone"
        return f"{read}, but {kernel} overwrites other bytes, {value}"

    def _name_step(self, number: int) -> str:
        return f"`%{self.flow.instructions[self.flow.find_step(number)].name}`"

    def _name_value(self, write: HiddenWrite) -> str:
        """Returns the name of the scheduled instruction that computed the overwritten value; if the schedule does not
        perform the write, a phrase for the kernel's operand.
        """
        for one in self.context.followed.performed:
            if one.write.index == write.index:
                return self._name_step(one.overwritten.definition[0])
        return f"operand {write.operand} of `{write.kernel}`"

    def _find_read(self, finding: ReadFinding) -> Definition | None:
        """Returns the definition of the value that the finding's reader reads in other bytes than the overwritten ones;
        None if it is unknown.
        """
        wrong = finding.wrong
        if wrong is None or wrong.operand is None or wrong.operand >= len(finding.reader.operands):
            return None
        value = finding.reader.operands[wrong.operand]
        leaves = list(iterate_leaves(value.shape))
        found = self.flow.readers.positions.resolve(value, leaves[0]) if len(leaves) == 1 else None
        return found if found is not None and found[0] in self.flow.instructions else None

    def _name_kernel(self, name: str, verdict: Verdict) -> str:
        causes = [c for c in self.context.verdicts.outputs[name].causes if c.verdict is verdict]
        return f"`{self.context.writes[causes[0].write].kernel}`" if causes else "a kernel"

    def _find_same(self, access: BufferAccess | None) -> ReadFinding | None:
        """Returns the finding (`ReadFinding`) about a stale read by the instruction that makes this access, even if the
        finding is about other outputs; None if there is none, or no access.
        """
        if access is None:
            return None
        same = [one for one in self.context.verdicts.stale if one.write.index == access.buffer]
        return next((one for one in same if self.flow.find_step(one.reader.id) == access.step), None)

    def _find_access(self, name: str, kind: ReadKind) -> BufferAccess | None:
        """Returns the first of the view's accesses that is a read of this kind and makes the output wrong; None if
        there is none. Unlike the verdicts' findings (`ReadFinding`), the accesses include reads by instructions that
        the compiler made.
        """
        return next((one for one in self.accesses if one.read is kind and name in one.outputs), None)

    def _count_steps(self, reader: int, write: int, *, is_after: bool) -> str:
        """Returns text such as ` 3 steps`, the distance in the schedule between the kernel and the reader. is_after:
        whether the reader should come after the kernel. Empty if it does not, or if the two are in different
        computations.
        """
        times, step = self.flow.readers.times, self.flow.find_step(reader)
        for one in self.context.followed.performed:
            same = self.flow.homes.get(step) is self.flow.homes.get(one.kernel)
            distance = (times[step] - times[one.kernel]) * (1 if is_after else -1)
            if one.write.index == write and same and distance > 0:
                return f" {count_of(distance, 'step')}"
        return ""


def _find_first(findings: tuple[ReadFinding, ...], name: str) -> ReadFinding | None:
    return next((finding for finding in findings if name in finding.outputs), None)
