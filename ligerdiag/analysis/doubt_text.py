"""Doubts as sentences: for each reader, which outputs hang on it and why it cannot be told what they should see."""

from collections import defaultdict

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.doubts import Doubt, Reason
from ligerdiag.hlo.module import HloInstruction


def describe_doubts(context: Context) -> tuple[str, ...]:
    """One line for each doubt, with the outputs that it makes unknown."""
    outputs: defaultdict[Doubt, list[str]] = defaultdict(list)
    for name, doubts in context.doubts.items():
        for doubt in sorted(doubts, key=lambda d: (d.write, d.reason.value, d.instruction)):
            outputs[doubt].append(name)
    if not outputs:
        return ()
    modules = (context.program, context.optimized)
    program, optimized = ({i.id: i for c in m.computations.values() for i in c.instructions} for m in modules)
    return tuple(
        _describe(
            context, doubt, (optimized if doubt.reason in _OF_OPTIMIZED else program).get(doubt.instruction), names
        )
        for doubt, names in outputs.items()
    )


_OF_OPTIMIZED = frozenset({Reason.AMBIGUOUS, Reason.UNSURE, Reason.UNIDENTIFIED})


def _describe(context: Context, doubt: Doubt, instruction: HloInstruction | None, names: list[str]) -> str:
    write = context.writes[doubt.write]
    reader = f"`%{instruction.name}`" if instruction is not None else "an instruction"
    value = write.call.operands[write.operand].name
    listed = ", ".join(f"`{name}`" for name in names)
    match doubt.reason:
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
