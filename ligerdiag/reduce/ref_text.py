"""Writes the operations on a Ref as Python: `jax.new_ref`, reads, stores. Runs in a worker."""

from collections.abc import Mapping, Sequence
from typing import Any

from ligerdiag.reduce.kernel_source import UnwritableError

OPERATIONS = frozenset(("new_ref", "freeze", "get", "swap", "addupdate"))


def write_ref_operation(name: str, params: Mapping[str, Any], places: Sequence[str], *, is_read: bool) -> str:
    """Returns the Python text of an operation on a Ref: an expression or statement with `{0}` in place of the Ref.

    places: the text of each operand, either a placeholder such as `{1}` or a number; an index counts as an operand.
    is_read: whether the program reads the result.

    Raises UnwritableError for a Ref with an explicit memory space, and for a view of a Ref.
    """
    match name:
        case "new_ref":
            if params.get("memory_space") is not None or params.get("pin"):
                raise UnwritableError("makes a Ref in an explicit memory space")
            return "jax.new_ref({0})"
        case "freeze":
            return "jax.freeze({0})"
        case "get":
            return f"{{0}}[{_write_indices(params['tree'], places[1:])}]"
        case "swap":
            at = _write_indices(params["tree"], places[2:])
            return f"jax.ref.swap({{0}}, {_as_value(at)}, {{1}})" if is_read else f"{{0}}[{at}] = {{1}}"
        case "addupdate":
            return f"jax.ref.addupdate({{0}}, {_as_value(_write_indices(params['tree'], places[2:]))}, {{1}})"
        case _:
            raise UnwritableError("is an unknown operation on a Ref")


def _write_indices(tree: Any, indices: Sequence[str]) -> str:
    """Returns the text between the brackets."""
    transforms = list(tree.unflatten(indices))
    if not transforms:
        return "..."
    indexer: Any = transforms[0]
    if len(transforms) > 1 or not hasattr(indexer, "indices"):
        raise UnwritableError("reads or writes a view of a Ref")
    parts = [_write_index(one, size) for one, size in zip(indexer.indices, indexer.shape, strict=True)]
    while parts and parts[-1] == ":":
        parts.pop()
    return ", ".join(parts) or "..."


def _write_index(index: Any, size: int) -> str:
    if not hasattr(index, "stride"):
        return str(index)
    if (index.start, index.size, index.stride) == (0, size, 1):
        return ":"
    if isinstance(index.start, int) and isinstance(index.size, int):
        end = index.start + (index.size - 1) * index.stride + 1
        return f"{index.start}:{end}" + (f":{index.stride}" if index.stride != 1 else "")
    raise UnwritableError("reads or writes a slice of a Ref that begins at a computed index")


def _as_value(indices: str) -> str:
    if ":" not in indices:
        return f"({indices},)" if indices != "..." else indices
    parts = [one if ":" not in one else f"slice({', '.join(_bounds(one))})" for one in indices.split(", ")]
    return f"({', '.join(parts)},)"


def _bounds(text: str) -> list[str]:
    return [one or "None" for one in text.split(":")]
