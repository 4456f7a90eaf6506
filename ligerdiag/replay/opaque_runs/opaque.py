"""Runs custom calls as opaque functions. For that, replay must know which buffers a call reads and writes, but not its
code.

XLA cannot look into a custom call either. So a schedule is right for a call's own function if and only if it is right
for any other function that reads and writes the same buffers, apart from coincidences. The function that stands in for
a call here is fixed by the call's target and payload, so equal calls compute equal values in all runs, wherever XLA
moves them. A call into which XLA merged several computes the values of each of them. Element i of a buffer that a call
writes becomes

    0.5 + |(t mod 2) - 1|,  t = p[i] + w[i] (D + sum over the read buffers b of the same length of c[b] x[b][i])

where p[i], w[i] and c[b] are pseudo-random numbers, w[i] near 1, and the digest D is a mean over all elements of all
read buffers, each with a pseudo-random weight. If the call keeps or reads the old contents of the buffer, they are
added to t, with a factor even nearer to 1. So

- each element depends on each element that the call may read, and most of all on those at its own place;
- a sum over the elements depends on them, too: where D changes, half of the elements may rise and half of them fall, but
  not by equal amounts;
- the function is continuous and its slopes are at most a little above 1, so that rounding errors do not grow by much when a
  loop repeats it; its values still depend on those that it read many iterations ago;
- all values are from 0.5 to 1.5, so that a logarithm, a root or a division by one of them is finite.

A comparison with 0, a sign or a maximum cannot tell such values apart. So there are functions with both signs, too,
whose values are smaller by 1: from -0.5 to 0.5.

Integers become 0 to 15, booleans both. Only elements in the buffer's footprint, the span that the call may write, are
written. The accesses are upper bounds: a call that might read a buffer is taken to read all of it, and one that might
write an element is taken to write it. A NaN that a call may read makes all that it writes a NaN.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from ligerdiag.effects.access import Access, CallEffects, OperandUse, ReadsBeforeWrite, WriteCoverage
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import TOKEN, count_elements, iterate_leaf_shapes, render_shape
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.opaque_calls import OpaqueCall, OpaqueUse
from ligerdiag.replay.ops.dtypes import get_dtype
from ligerdiag.replay.ops.evaluate import TARGETS
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.launch import compute_payload_key

_LARGEST = 1e3
"""Magnitude above which all floats that a call reads count as equal, infinities included."""
_BESIDE = 0.125
"""Largest magnitude of the factor c[b] (see the module's docstring) if b is not the buffer that is written."""
_SPREAD = 0.25
"""Largest distance of the factor w[i] (see the module's docstring) from 1."""
_OWN_SPREAD = 1e-3
"""Largest distance from 1 of the factor of a buffer's own old contents. It is small because a loop raises the factor to a
high power.
"""
_INTEGERS = 16
_BLOCK = 1 << 15
"""Number of elements that are computed at a time, so that they stay in the cache."""

_IN_ONE_MODULE = CallTrait.MARKER | CallTrait.SHARD_EDGE | CallTrait.CUSTOM_PARTITIONING | CallTrait.MADE_BY_XLA
"""Traits of custom-call targets that occur only in the program, or only in the schedule."""


def is_opaque(instruction: HloInstruction) -> bool:
    """Returns whether an opaque function may replace the instruction. The instruction must be a custom call whose
    target replay cannot compute by itself, such as a kernel. XLA's own calls for products or sorts are not replaced.
    """
    if instruction.opcode != "custom-call" or is_call_with(instruction, _IN_ONE_MODULE):
        return False
    return not any(is_call_with(instruction, trait) for trait in TARGETS)


def compute_elements(call: HloInstruction) -> int:
    """Returns the number of elements of the call's operands and outputs together."""
    shapes = [operand.shape for operand in call.operands]
    return sum(count_elements(leaf) for shape in (*shapes, call.shape) for _, leaf in iterate_leaf_shapes(shape))


def describe_call(call: HloInstruction, effects: CallEffects, *, has_layouts: bool) -> OpaqueCall:
    """Describes a call as an opaque function, a stand-in that reads and writes the same buffers. Raises NotCoveredError
    if an effect of the call is unknown. Also raises it if an operand or output is not an array in row-major layout.

    effects: what the call does to its buffers. has_layouts: whether the layouts of the call's module are those of
    memory, as in a schedule.
    """
    shapes = [*(operand.shape for operand in call.operands), *(shape for _, shape in iterate_leaf_shapes(call.shape))]
    accesses = (*effects.operands, *effects.outputs)
    if Access.UNKNOWN in accesses:
        why = effects.reasons[0] if effects.reasons else "its code could not be read"
        raise NotCoveredError(f"the effects of `{effects.kernel}` are unknown: {why}")
    if len(accesses) != len(shapes):
        raise NotCoveredError(f"`{call.name}`: a call with a tuple as operand")
    for shape in shapes:
        order = list(shape.layout.minor_to_major) if has_layouts else []
        if shape.element_type == TOKEN or shape.tuple_shapes or (order and order != [*range(len(order))][::-1]):
            raise NotCoveredError(
                f"`{call.name}`: a call with an operand or output that is not an array in row-major layout"
            )
    uses = zip(accesses, (*effects.operand_uses, *effects.output_uses), shapes, strict=True)
    described = tuple([_describe_use(*one) for one in uses])
    return OpaqueCall(id=call.id, function=_name_function(call, effects.kernel, shapes), uses=described)


def _name_function(call: HloInstruction, kernel: str, shapes: Sequence[ShapeProto]) -> str:
    """Returns the name of a call's function: a hash of its target and payload. The payload of a Mosaic GPU module holds
    numbers that differ each time that JAX lowers the program, so the kernel's name and the shapes take its place.
    """
    if not is_call_with(call, CallTrait.MOSAIC | CallTrait.UNREAD_MOSAIC):
        return compute_payload_key(call)
    text = "\0".join([call.proto.custom_call_target, kernel, *map(render_shape, shapes)])
    return sha256(text.encode()).hexdigest()


def _describe_use(access: Access, use: OperandUse, shape: ShapeProto) -> OpaqueUse:
    reads = access.reads and use.reads_before_write is not ReadsBeforeWrite.NO
    if not access.writes or use.coverage is WriteCoverage.NONE:
        return OpaqueUse(reads=reads)
    blends = reads or use.coverage is not WriteCoverage.COMPLETE
    if use.span is None or use.coverage is WriteCoverage.COMPLETE:
        return OpaqueUse(reads=reads, writes=True, blends=blends)
    size = get_dtype(shape).itemsize
    return OpaqueUse(reads=reads, writes=True, blends=blends, start=use.span[0] // size, stop=-(-use.span[1] // size))


@dataclass(slots=True, eq=False, kw_only=True)
class OpaqueRunner:
    """Runs the custom calls of one module as opaque functions. An opaque function is a stand-in that reads and writes
    the same buffers as the call. Implements `program.Kernels`.
    """

    calls: Mapping[int, OpaqueCall]
    """By the id of the instruction. The runner runs these calls and no others."""
    isolated: bool = False
    """Whether calls leave an operand unchanged, unless an output shares its bytes."""
    salt: str = ""
    """Text that selects the set of functions: with another salt, every call gets another function."""
    signed: bool = False
    """Whether the functions have values of both signs."""

    def runs(self, instruction: HloInstruction) -> bool:
        """Returns whether the instruction is one of the calls that this object runs."""
        return instruction.opcode == "custom-call" and instruction.id in self.calls

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """Overwrites the elements that the call writes with values of its opaque function, a stand-in for the call.
        Outputs that the call does not write become NaN, or 0 for integers. See `program.Kernels`.
        """
        del watched
        for output in outputs:
            if not any(np.may_share_memory(output, operand) for operand in operands):
                output[...] = np.nan if output.dtype.kind in "fc" else 0
        if call.id not in self.calls:
            return  # a call that allocates memory
        key, uses, buffers = self.salt + self.calls[call.id].function, self.calls[call.id].uses, (*operands, *outputs)
        declared = {index: operand for operand, index in call.operand_output_aliases.items()}
        held = [True] * len(operands) + [index in declared for index, _ in iterate_leaf_shapes(call.shape)]
        """Whether each buffer has contents from before the call."""
        read = {n: buffers[n] for n, use in enumerate(uses) if use.reads and held[n] and buffers[n].size}
        digest = sum([_draw(key, "digest", n) * _compute_mean(buffer) for n, buffer in read.items()])
        made: list[tuple[Array, Array]] = []
        for number, use in enumerate(uses):
            if not use.writes or not buffers[number].size or self._is_hidden(number, operands, outputs):
                continue
            size = buffers[number].size
            beside = {n: _BESIDE * _draw(key, number, n) for n, b in read.items() if n != number and b.size == size}
            start, stop = min(use.start, size), min(size if use.stop is None else use.stop, size)
            terms = [(factor, buffers[n]) for n, factor in beside.items()]
            shift, own = digest + _draw(key, "shift", number), use.blends and held[number]
            values = _compute(terms, shift, buffers[number], start, stop, own=own)
            if self.signed and values.dtype.kind in "fc":
                values -= 1.0
            made.append((buffers[number][start:stop], values))
        for target, values in made:
            target[...] = values

    def _is_hidden(self, number: int, operands: Sequence[Array], outputs: Sequence[Array]) -> bool:
        return (
            self.isolated
            and number < len(operands)
            and not any(np.may_share_memory(operands[number], output) for output in outputs)
        )


def _draw(key: str, *names: object) -> float:
    """Returns a pseudo-random number of magnitude 0.5 to 1 that depends on the arguments alone."""
    digest = sha256(f"{key}{names}".encode()).digest()
    magnitude = 0.5 + int.from_bytes(digest[:4], "little") / 2**33
    return magnitude if digest[4] & 1 else -magnitude


@cache
def _draw_noise() -> Array:
    return np.random.Generator(np.random.PCG64(20)).uniform(-1.0, 1.0, _BLOCK * 32)


def _iterate_blocks(start: int, stop: int) -> Iterator[tuple[slice, Array, Array]]:
    """Yields ranges that cover the elements from `start` to `stop`, each with two fixed pseudo-random numbers from -1 to 1
    for each element, by the element's number.
    """
    noise = _draw_noise()
    most = noise.size - _BLOCK
    for block in range(start // _BLOCK, -(-stop // _BLOCK)):
        low, high = max(start, block * _BLOCK), min(stop, (block + 1) * _BLOCK)
        first, second = (
            noise[place + low - block * _BLOCK : place + high - block * _BLOCK]
            for place in (block * 7919 % most, (block * 7919 + most // 2) % most)
        )
        yield slice(low, high), first, second


def _compute_mean(buffer: Array) -> float:
    """Returns the mean of a buffer's elements, each with a pseudo-random weight."""
    return (
        sum([float(np.dot(noise, _read(buffer[part]))) for part, noise, _ in _iterate_blocks(0, buffer.size)])
        / buffer.size
    )


def _compute(
    terms: Sequence[tuple[float, Array]], shift: float, target: Array, start: int, stop: int, *, own: bool
) -> Array:
    """Returns new contents for the elements from `start` to `stop` of the buffer `target`. own: whether they depend on the
    old ones at the same place.
    """
    found = np.empty(max(0, stop - start), target.dtype)
    for part, noise, weights in _iterate_blocks(start, stop):
        block = np.full(noise.size, shift)
        for factor, values in terms:
            block += factor * _read(values[part])
        block *= 1.0 + _SPREAD * weights
        block += noise
        if own:
            block += (1.0 + _OWN_SPREAD * weights) * _read(target[part])
        found[part.start - start : part.stop - start] = _fold(block, target.dtype)
    return found


def _read(values: Array) -> Any:
    match values.dtype.kind:
        case "f":
            return np.clip(values, -_LARGEST, _LARGEST)
        case "c":
            both: Any = values
            return np.clip(both.real, -_LARGEST, _LARGEST) + 0.6 * np.clip(both.imag, -_LARGEST, _LARGEST)
        case "b":
            return values.astype(np.float64)
        case _:
            return _wrap(values.astype(np.float64) * 0.6180339887498949)


def _wrap(values: Any) -> Any:
    """Returns the values modulo 1, in place, several times faster than NumPy's own remainder."""
    values -= np.floor(values)
    return values


def _fold(block: Any, dtype: "np.dtype[Any]") -> Any:
    folded = np.abs(2.0 * _wrap(0.5 * block) - 1.0)
    match dtype.kind:
        case "f":
            return 0.5 + folded
        case "c":
            return 0.5 + folded + 1j * (1.5 - folded)
        case "b":
            return folded > 0.5
        case _:
            return np.minimum(folded * _INTEGERS, _INTEGERS - 1).astype(dtype)
