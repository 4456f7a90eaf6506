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

from ligerdiag.compile.locations import put_location, read_name, rename_location

_TAG = re.compile(r"#ld\d+$")


def tag_operations(module: ir.Module) -> int:
    """Tags all operations of the module in place and returns how many they are."""
    operations = list(walk_operations(module.operation))
    for number, operation in reversed(list(enumerate(operations, 1))):  # inner ones first: see put_location
        put_location(operation, _tag_location(operation.location, number, module.context))
    return len(operations)


def walk_operations(operation: Any) -> Iterator[Any]:
    """All operations in the regions of `operation`, in program order."""
    for region in operation.regions:
        for block in region:
            for view in block:
                yield view.operation
                yield from walk_operations(view.operation)


def strip_tag(name: str) -> str:
    """The name as it was before it was tagged."""
    return _TAG.sub("", name)


def _tag_location(location: Any, number: int, context: Any) -> Any:
    return rename_location(location, f"{strip_tag(read_name(location) or '')}#ld{number}", context)
