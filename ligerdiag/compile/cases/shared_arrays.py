"""Finds arguments of a call that are one and the same array. JAX refuses the call if such an argument is donated and an
output takes its bytes.

Two arguments are one array if they are one object, or if JAX made one from the other without a copy, as
`jax.device_put` does for the devices on which an array lies already. Two arrays with one address need not be one array.
On a CPU, two JAX arrays may use the memory of one NumPy array; on a GPU each would be a copy. So on a CPU, JAX's
runtime is asked whether they are one array.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def number_shared_arrays(leaves: Iterable[Any]) -> Mapping[int, int]:
    """Numbers the JAX arrays that occur more than once among the leaves, from 1. Returns `{id of the array's Python
    object: number}`. If two objects are one array, both have the same number.

    leaves: those of a call's arguments (`list_passed`).
    """
    library: Any = sys.modules.get("jax")
    if library is None:
        return {}
    arrays: list[Any] = [leaf for leaf in leaves if _is_concrete(leaf, library)]
    groups: list[list[Any]] = []
    places: dict[tuple[object, int], list[list[Any]]] = {}
    first = {id(array): array for array in arrays}
    for array in first.values():
        addresses = list(_list_addresses(array))
        alike = [group for address in addresses for group in places.get(address, ())]
        found = next((one for one in alike if _is_one_array(one[0], array, library)), None)
        group: list[Any] = [] if found is None else found
        if found is None:
            groups.append(group)
        group.append(array)
        for address in addresses:
            places.setdefault(address, []).append(group)
    uses = Counter(id(array) for array in arrays)
    shared = [group for group in groups if sum(uses[id(array)] for array in group) > 1]
    return {id(array): number for number, group in enumerate(shared, start=1) for array in group}


def group_shared_arguments(numbers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Groups the positions of arguments that are one array. Returns one tuple of positions for each such array.

    numbers: for each argument the number that `number_shared_arrays` gives its array, or 0 if the array is passed only
    once.
    """
    groups: dict[int, list[int]] = {}
    for position, number in enumerate(numbers):
        if number:
            groups.setdefault(number, []).append(position)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _is_concrete(leaf: Any, library: Any) -> bool:
    return isinstance(leaf, library.Array) and not isinstance(leaf, library.core.Tracer) and not leaf.is_deleted()


def _list_addresses(array: Any) -> Iterator[tuple[object, int]]:
    """Yields the address of each part of the array on a device of this process, with the device."""
    if not array.size:
        return
    try:
        for shard in array.addressable_shards:
            yield shard.device, shard.data.unsafe_buffer_pointer()
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return  # such as typed random keys in some versions of JAX: they count as one array only if they are one object


def _is_one_array(one: Any, other: Any, library: Any) -> bool:
    """Returns whether two arrays with a common address are one array for JAX's runtime."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if any(device.platform != "cpu" for device in one.devices()):
        return True
    return _is_refused(one, other, library)


def _is_refused(one: Any, other: Any, library: Any) -> bool:
    """Returns whether the runtime refuses to donate both arrays, which lie in the memory of a CPU.

    As long as a NumPy array uses their memory, the runtime copies what is donated and deletes nothing.
    """
    numpy: Any = sys.modules["numpy"]
    views: Iterable[Any] = [numpy.asarray(array) for shards in (one, other) for array in _list_parts(shards)]
    try:
        donating = library.jit(_return_both, donate_argnums=(0, 1), keep_unused=True)
        library.block_until_ready(donating(one, other))
    except (RuntimeError, ValueError) as fault:
        return "donate" in str(fault)
    finally:
        del views
    return False


def _return_both(one: Any, other: Any) -> tuple[Any, Any]:
    return one, other


def _list_parts(array: Any) -> Iterator[Any]:
    return (shard.data for shard in array.addressable_shards)
