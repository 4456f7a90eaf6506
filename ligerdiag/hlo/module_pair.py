"""What the two modules of one compilation have in common, whatever XLA did between them."""

from collections.abc import Mapping

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule


def require_same_operands(program: HloModule, optimized: HloModule) -> None:
    """Raises ArtifactError where one kernel has other numbers of operands in the two modules: XLA keeps them."""
    written, left = _count_operands(program), _count_operands(optimized)
    for kernel in written.keys() & left.keys():
        if not left[kernel] <= written[kernel]:
            raise ArtifactError(f"`{optimized.name}` calls a kernel with other operands than the program does")


def _count_operands(module: HloModule) -> Mapping[tuple[str, bytes], set[int]]:
    found: dict[tuple[str, bytes], set[int]] = {}
    for _, call in module.iterate_custom_calls():
        key = (call.proto.custom_call_target, call.proto.backend_config)
        found.setdefault(key, set()).add(len(call.operands))
    return found
