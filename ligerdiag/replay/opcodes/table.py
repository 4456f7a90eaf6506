"""Every opcode that computes a value from values. Control flow, calls and memory are `evaluate`'s and `machine`'s."""

from collections.abc import Mapping

from ligerdiag.replay.opcodes import (
    bits,
    choice,
    conversion,
    dot,
    dynamic,
    elementwise,
    gather,
    identity,
    library_calls,
    movement,
    ordering,
    random,
    reduction,
    scan,
    scatter,
    windows,
)
from ligerdiag.replay.opcodes.scope import Evaluate

FAMILIES: tuple[Mapping[str, Evaluate], ...] = (
    bits.OPCODES,
    choice.OPCODES,
    conversion.OPCODES,
    dot.OPCODES,
    dynamic.OPCODES,
    elementwise.OPCODES,
    gather.OPCODES,
    identity.OPCODES,
    library_calls.OPCODES,
    movement.OPCODES,
    ordering.OPCODES,
    random.OPCODES,
    reduction.OPCODES,
    scan.OPCODES,
    scatter.OPCODES,
    windows.OPCODES,
)

OPCODES: Mapping[str, Evaluate] = {name: evaluate for family in FAMILIES for name, evaluate in family.items()}
