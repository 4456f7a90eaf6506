"""Every opcode that computes a value from values. Control flow, calls and memory are `evaluate`'s and `machine`'s."""

from collections.abc import Mapping

from ligerdiag.replay.opcodes.scope import Evaluate

FAMILIES: tuple[Mapping[str, Evaluate], ...] = ()

OPCODES: Mapping[str, Evaluate] = {name: evaluate for family in FAMILIES for name, evaluate in family.items()}
