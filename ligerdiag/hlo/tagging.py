"""Whether a module is tagged: by the compile worker, and from the first operation to the last.

A tag is a text in an op_name, and op_names come from a file: somebody's own scope may be called like a tag, and a tag may
have been cut off. The worker tags every operation of a program and lets no other `#` or `;` through. So a module from before
the optimizations is tagged where each of its instructions that has a name has one tag at the end of each joined name, and
where only such as MLIR adds (barriers, broadcasts, calls) have no name. Otherwise its tags are not used at all.
"""

import re

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having

_TAGGED = re.compile(r"(?:[^#;]*#ld\d{1,18};)*[^#;]*#ld\d{1,18}")
_UNTAGGED = having(Trait.NO_OPERATION)
_UNNAMED = having(Trait.UNNAMED)


def is_tagged(program: HloModule) -> bool:
    """Returns whether the tags of a module from before the optimizations are complete."""
    return bool(program.tags) and all(
        _has_tag(instruction)
        for computation in program.computations.values()
        for instruction in computation.instructions
        if instruction.opcode not in _UNTAGGED
    )


def _has_tag(instruction: HloInstruction) -> bool:
    if not instruction.op_name:
        return instruction.opcode in _UNNAMED
    return _TAGGED.fullmatch(instruction.op_name) is not None
