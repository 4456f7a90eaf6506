"""Why outputs are unknown, as sentences."""

from collections import defaultdict

from ligerdiag.analysis.ambiguities import Ambiguity, Reason
from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.verdict.verdicts import Verdicts
from ligerdiag.findings import Verdict
from ligerdiag.hlo.module import HloInstruction


def describe_untraced(pair: EvaluatedPair, verdicts: Verdicts) -> tuple[str, ...]:
    """One line for each write about which outputs are unknown and whose operand was not seen to hold the original."""
    unknown = {c.write for o in verdicts.outputs.values() for c in o.causes if c.verdict is Verdict.UNKNOWN}
    lines = [
        f"what operand {write.operand} of `{write.kernel}` held before is not found again: whether its readers see that"
        " could not be told"
        for write in pair.writes
        if write.index in unknown and not write.unknown and write.index not in pair.actual.traced
    ]
    return tuple(dict.fromkeys(lines))


def describe_ambiguities(pair: EvaluatedPair, verdicts: Verdicts) -> tuple[str, ...]:
    """One line for each ambiguity: what cannot be told, and the outputs that it makes unknown."""
    outputs: defaultdict[Ambiguity, list[str]] = defaultdict(list)
    for name, ambiguities in verdicts.ambiguities.items():
        for ambiguity in sorted(ambiguities, key=lambda d: (d.write, d.reason.value, d.instruction)):
            outputs[ambiguity].append(name)
    if not outputs:
        return ()
    modules = (pair.program, pair.optimized)
    program, optimized = ({i.id: i for c in m.computations.values() for i in c.instructions} for m in modules)
    return tuple(
        _describe(
            pair,
            ambiguity,
            (optimized if ambiguity.reason in _OF_OPTIMIZED else program).get(ambiguity.instruction),
            names,
        )
        for ambiguity, names in outputs.items()
    )


_OF_OPTIMIZED = frozenset({Reason.AMBIGUOUS, Reason.UNSURE, Reason.UNIDENTIFIED})


def _describe(pair: EvaluatedPair, ambiguity: Ambiguity, instruction: HloInstruction | None, names: list[str]) -> str:
    write = pair.writes[ambiguity.write]
    reader = f"`%{instruction.name}`" if instruction is not None else "an instruction"
    value = write.call.operands[write.operand].name
    listed = ", ".join(f"`{name}`" for name in names)
    match ambiguity.reason:
        case Reason.DERIVATIVE:
            why = (
                f"{reader} reads `%{value}`, or a derivative of it: from before or after `{write.kernel}` overwrote it"
            )
        case Reason.OTHER_FORM:
            why = f"{reader} reads another form of `%{value}`, or `%{value}` itself after `{write.kernel}` overwrote it"
        case Reason.CONSTANT:
            why = f"`{write.kernel}` overwrites a constant, `%{value}`, and which other constants are that one"
        case Reason.AMBIGUOUS:
            why = f"which operation {reader} is, and so what of `{write.kernel}` it should see"
        case Reason.UNSURE:
            why = f"whether {reader} is the author's operation, and so what of `{write.kernel}` it should see"
        case Reason.NO_METADATA:
            why = f"which operations of the optimized module are which, and so who reads what `{write.kernel}` wrote"
        case Reason.TOO_MANY:
            why = f"on which of very many operations that `{write.kernel}` makes wrong these outputs depend"
        case Reason.UNIDENTIFIED:
            why = f"whether {reader} computes what `{write.kernel}` overwrites, which no name says that can be believed"
    return f"{why}, cannot be told: {listed}"
