"""Values of the program in its own order: names for storage."""

type Storage = int
"""Index of the dependence set of one array."""

type Value = Storage | tuple["Value", ...]
"""An array's storage, or a tuple of values."""


def list_leaves(value: Value) -> list[Storage]:
    """Storage of each array of the value, in order."""
    if isinstance(value, int):
        return [value]
    found: list[Storage] = []
    for child in value:
        found += list_leaves(child)
    return found
