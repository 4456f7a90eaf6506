"""Every opcode that computes a value from values. Control flow, calls and memory are `evaluate`'s and `machine`'s."""

from collections.abc import Mapping

from ligerdiag.replay.opcodes.bits import BITS
from ligerdiag.replay.opcodes.choice import CHOICE
from ligerdiag.replay.opcodes.conversion import CONVERSION
from ligerdiag.replay.opcodes.dot import DOT
from ligerdiag.replay.opcodes.dynamic import DYNAMIC
from ligerdiag.replay.opcodes.elementwise import ELEMENTWISE
from ligerdiag.replay.opcodes.gather import GATHER
from ligerdiag.replay.opcodes.identity import IDENTITY
from ligerdiag.replay.opcodes.library_calls import LIBRARY_CALLS
from ligerdiag.replay.opcodes.movement import MOVEMENT
from ligerdiag.replay.opcodes.ordering import ORDERING
from ligerdiag.replay.opcodes.random import RANDOM
from ligerdiag.replay.opcodes.reduction import REDUCTION
from ligerdiag.replay.opcodes.scan import SCAN
from ligerdiag.replay.opcodes.scatter import SCATTER
from ligerdiag.replay.opcodes.scope import Evaluate
from ligerdiag.replay.opcodes.windows import WINDOWS

FAMILIES: tuple[Mapping[str, Evaluate], ...] = (
    BITS,
    CHOICE,
    CONVERSION,
    DOT,
    DYNAMIC,
    ELEMENTWISE,
    GATHER,
    IDENTITY,
    LIBRARY_CALLS,
    MOVEMENT,
    ORDERING,
    RANDOM,
    REDUCTION,
    SCAN,
    SCATTER,
    WINDOWS,
)

OPCODES: Mapping[str, Evaluate] = {name: evaluate for family in FAMILIES for name, evaluate in family.items()}
