"""Worker side: puts a unique number on every StableHLO operation, in program order.

1. The number is written behind the operation's own name, `jit(f)/mul#ld17`, in its location; the locations below it
   (file, line, callers) stay. An operation without a name gets `#ld17` alone.
2. Numbers are 1, 2, … in the order of a walk over the module, an operation before the operations in its regions.
   A tag that is there already is replaced: JAX hands out the module of its cache when it lowers a program again.
3. XLA keeps the name as `op_name`. For an inlined function it joins caller and callee: `jit(f)/call#ld15/add#ld85`.
"""

import re
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

_TAG = re.compile(r"#ld\d+$")


def tag_operations(module: ir.Module) -> int:
    """Tags all operations of the module in place and returns how many they are."""
    count = 0
    for operation in walk_operations(module.operation):
        count += 1
        operation.location = _tag_location(operation.location, count, module.context)
    return count


def walk_operations(operation: Any) -> Iterator[Any]:
    """All operations in the regions of `operation`, in program order."""
    for region in operation.regions:
        for block in region:
            for view in block:
                yield view.operation
                yield from walk_operations(view.operation)


def _tag_location(location: ir.Location, number: int, context: Any) -> ir.Location:
    if isinstance(location, ir.NameLoc):
        name = _TAG.sub("", location.name_str)
        return ir.Location.name(f"{name}#ld{number}", childLoc=location.child_loc, context=context)
    return ir.Location.name(f"#ld{number}", childLoc=location, context=context)
