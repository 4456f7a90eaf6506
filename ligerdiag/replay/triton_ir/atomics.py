"""`tt.atomic_rmw` and `tt.atomic_cas`: programs in their order, each program's lanes in their order, whatever the
semantics.

A program's result is what stood there when its turn came; elements that are masked out give zero.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ligerdiag.effects.libtriton import parse_word
from ligerdiag.effects.ttir_module import Operation
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.memory import AccessSite, Memory
from ligerdiag.replay.triton_ir.operations.floats import narrow, widen
from ligerdiag.replay.triton_ir.operations.integers import view_unsigned
from ligerdiag.replay.triton_ir.values import is_narrow


def _exchange(old: Array, new: Array) -> Array:
    del old
    return new


_KINDS: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "fadd": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "umax": np.maximum,
    "umin": np.minimum,
    "exch": _exchange,
}


def prepare_update(op: Operation, kind: str = "") -> Callable[[Memory, AccessSite, Array], Array]:
    """Returns what evaluates this `tt.atomic_rmw`: a memory, where, and the value to the old values."""
    kind = kind or parse_word(op.text, "tt.atomic_rmw")
    function = _KINDS.get(kind)
    if function is None:
        raise NotCoveredError(f"tt.atomic_rmw {kind}")

    def compute(memory: Memory, target: AccessSite, value: Array) -> Array:
        def combine(old: Array, new: Array) -> Array:
            if kind.startswith("u"):
                return function(view_unsigned(old), view_unsigned(new)).view(old.dtype)
            if is_narrow(old.dtype):
                return narrow(function(widen(old), widen(new)), old.dtype)
            return function(old, new)

        return _update(memory, target, value, combine)

    return compute


def compare_and_swap(memory: Memory, target: AccessSite, expected: Array, value: Array) -> Array:
    """Evaluates a `tt.atomic_cas`; bits are compared."""
    shape = target.get_shape(expected, value)
    joined: Any = np.empty(
        np.broadcast_shapes(shape, (memory.numbers.size, *(1,) * (len(shape) - 1))), _pair(value.dtype)
    )
    joined["expected"], joined["value"] = expected, value

    def combine(old: Array, new: Array) -> Array:
        bits = f"u{old.dtype.itemsize}"
        same = old.view(bits) == np.ascontiguousarray(new["expected"]).view(bits)
        return np.where(same, new["value"], old)

    return _update(memory, target, joined, combine)


def _pair(dtype: Any) -> Any:
    return np.dtype([("expected", dtype), ("value", dtype)])


def _update(memory: Memory, target: AccessSite, value: Array, combine: Callable[[Array, Array], Array]) -> Array:
    """Rounds of at most one update for each address, in order, until all are done."""
    memory.journal.used_atomics = True
    dtype = value.dtype if value.dtype.names is None else value.dtype["value"]
    shape, parts = memory.reach(target, "atomic", dtype.itemsize, value)
    result = np.zeros(shape, dtype)
    flat = result.reshape(-1)
    values = np.broadcast_to(value, shape).reshape(-1)
    for argument, lanes, offsets in parts:
        whole, places = memory.view_elements(argument, offsets, dtype)
        if places.ndim > 1:
            raise NotCoveredError("an atomic operation at an address that is no multiple of its size")
        if memory.keeps_overwritten:
            touched = np.unique(places)
            memory.journal.overwritten.append((whole, touched, whole[touched]))
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        turn = np.empty(places.size, np.int64)
        turn[order] = np.arange(places.size) - np.repeat(starts, np.diff(np.r_[starts, places.size]))
        by_turn = np.argsort(turn, kind="stable")
        bounds = np.searchsorted(turn[by_turn], np.arange(int(turn.max()) + 2))
        for first, last in pairwise(bounds):
            chosen = by_turn[first:last]
            old = whole[places[chosen]]
            flat[lanes[chosen]] = old
            whole[places[chosen]] = combine(old, values[lanes[chosen]])
    return result
