"""Compares two programs in program order, with opaque functions in place of their kernels. Do their kernels and outputs
get the same values?

Real numbers may hide a change: an output may not depend on the contents that a kernel leaves, although the kernel reads
them. An opaque function depends on all that its kernel may read (see `opaque`), so if the outputs of both programs are
equal, each kernel gets the same contents in both, and each output gets the same results.

The change declares writes. So a call of one program has further outputs in the other one, which alias operands, and its
kernel may write the operand through the pointer to that output. Both are one place here: the use of an output that
aliases an operand counts for the operand. Two calls have one function if their kernels have one name, their places the
same shapes, and they write the same places. Whether the kernels have the same code, `MatchedCalls` says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ligerdiag.effects.access import CallEffects
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import iterate_leaf_shapes, render_shape
from ligerdiag.replay.opaque_calls import MatchedCalls, OpaqueCall, OpaqueUse
from ligerdiag.replay.opaque_runs.opaque import OpaqueRunner, describe_call, is_opaque
from ligerdiag.replay.opaque_runs.widening import widen_array, widen_module
from ligerdiag.replay.ops.remembered_products import RememberedProducts
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.attribution import compute_error
from ligerdiag.replay.runs.case_run import Programs
from ligerdiag.replay.runs.kernel_memo import REMEMBERED_PRODUCTS
from ligerdiag.replay.runs.program import run_intended_and_stale, run_program

_SAME = 1e-8
"""The greatest relative difference that rounding in f64 explains between two programs that mean the same."""
_TELLS = 1e-5
"""The least relative difference by which an output shows that a hidden write is lost."""

type FindEffects = Callable[[HloInstruction], CallEffects]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueDifferences:
    """The outputs that differ between two programs whose kernels are replaced by opaque functions. An opaque function
    is a stand-in that reads and writes the same buffers as the kernel.
    """

    different: tuple[str, ...] = ()
    """Names of the outputs that differ."""
    telling: tuple[str, ...] = ()
    """Names of the outputs that would change if all hidden writes of the first program were lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedCall:
    call: OpaqueCall
    kernel: str
    form: tuple[str, ...]
    """The kernel's code, or its name if the code is not known; the target, and the shapes of the places."""
    code: str


def match_calls(first: HloModule, changed: HloModule, find_effects: FindEffects) -> MatchedCalls:
    """Pairs the custom calls of the original program with those of the changed program. Each pair gets one opaque
    function, a stand-in that reads and writes the same buffers. Raises NotCoveredError if a call cannot be replaced in
    this way, or if the two programs do not call the same kernels.

    find_effects: returns the effects of a call of either program.
    """
    old, new = (_list_placed(one, find_effects) for one in (first, changed))
    forms = {one.form: one.kernel for one in (*new, *old)}
    found: tuple[list[OpaqueCall], list[OpaqueCall]] = ([], [])
    has_same_code = True
    for form, kernel in forms.items():
        codes = [[*dict.fromkeys(one.code for one in calls if one.form == form)] for calls in (old, new)]
        if len(codes[0]) != len(codes[1]):
            raise NotCoveredError(
                f"kernel `{kernel}`: the two programs do not call it with the same buffers and payload"
            )
        has_same_code &= codes[0] == codes[1]
        for number in range(len(codes[0])):
            same = [
                [one.call for one in calls if one.form == form and one.code == own[number]]
                for calls, own in zip((old, new), codes, strict=True)
            ]
            uses = _join_uses([one.uses for one in (*same[0], *same[1])], kernel)
            for made, calls in zip(found, same, strict=True):
                made += [_rename(one, " ".join([*form, str(number)]), uses) for one in calls]
    return MatchedCalls(
        first=tuple(found[0]),
        changed=tuple(found[1]),
        kernels=tuple(dict.fromkeys(forms.values())),
        has_same_code=has_same_code,
    )


def _rename(call: OpaqueCall, function: str, uses: Sequence[OpaqueUse]) -> OpaqueCall:
    rest = (OpaqueUse(),) * (len(call.uses) - len(uses))
    return replace(call, function=function, uses=(*uses, *rest))


def _list_placed(module: HloModule, find_effects: FindEffects) -> list[_PlacedCall]:
    return [_place_call(call, find_effects(call)) for _, call in module.iterate_custom_calls() if is_opaque(call)]


def _place_call(call: HloInstruction, effects: CallEffects) -> _PlacedCall:
    """Returns a call with the uses of its places: its operands, then the outputs that alias none. Raises NotCoveredError if
    an output that aliases an operand is not among the last ones.
    """
    described = describe_call(call, effects, has_layouts=False)
    count = len(call.operands)
    leaves = [*iterate_leaf_shapes(call.shape)]
    operand_of = {index: operand for operand, index in call.operand_output_aliases.items()}
    aliased = [index in operand_of for index, _ in leaves]
    own = aliased.count(False)
    if any(aliased[:own]):
        raise NotCoveredError(
            f"`{effects.kernel}`: a call with an aliased output before an output that aliases no operand"
        )
    uses = [*described.uses[: count + own]]
    for (index, _), use in zip(leaves[own:], described.uses[count + own :], strict=True):
        place = operand_of[index]
        uses[place] = _join(uses[place], use)
    shapes = [render_shape(one.shape) for one in call.operands] + [render_shape(one) for _, one in leaves[:own]]
    padded = (*uses, *(OpaqueUse(),) * (len(leaves) - own))
    return _PlacedCall(
        call=replace(described, uses=padded),
        kernel=effects.kernel,
        form=(effects.code or effects.kernel, call.proto.custom_call_target, *shapes),
        code=effects.code or described.function,
    )


def _join(one: OpaqueUse, other: OpaqueUse) -> OpaqueUse:
    """Returns the use of bytes that a kernel uses in two ways."""
    if not (one.writes and other.writes):
        writing = one if one.writes else other
        return replace(writing, reads=one.reads or other.reads, blends=writing.writes and (one.blends or other.blends))
    ends = None if one.stop is None or other.stop is None else max(one.stop, other.stop)
    return OpaqueUse(
        reads=one.reads or other.reads,
        writes=True,
        blends=one.blends or other.blends,
        start=min(one.start, other.start),
        stop=ends,
    )


def _join_uses(calls: Sequence[tuple[OpaqueUse, ...]], kernel: str) -> list[OpaqueUse]:
    """Returns one use for each place, which holds for all of these calls. Raises NotCoveredError if one of them writes a
    place that another one does not write.
    """
    count = min(map(len, calls))
    joined: list[OpaqueUse] = []
    for uses in zip(*(one[:count] for one in calls), strict=True):
        if len({one.writes for one in uses}) > 1:
            raise NotCoveredError(f"kernel `{kernel}` does not write the same operands in the two programs")
        whole = uses[0]
        for one in uses[1:]:
            whole = _join(whole, one)
        joined.append(whole)
    return joined


def compare_opaquely(
    first: Programs, changed: Programs, arguments: Sequence[tuple[Array, ...]], calls: MatchedCalls
) -> OpaqueDifferences:
    """Runs both programs with opaque functions in place of their kernels, and returns the differences. Every second set
    of arguments runs with functions that have values of both signs. Raises NotCoveredError if replay does not cover an
    operation.

    arguments: each set is one array for each input of the programs, in the program's own types.
    """
    programs = [widen_module(one.program) for one in (first, changed)]
    names = first.signature.outputs
    different, telling = dict[str, None](), dict[str, None]()
    for number, given in enumerate(arguments):
        runners = [
            OpaqueRunner(calls={one.id: one for one in own}, salt=f"{number} ", signed=number % 2 == 1)
            for own in (calls.first, calls.changed)
        ]
        products = RememberedProducts(REMEMBERED_PRODUCTS)
        wide = [widen_array(one) for one in given]
        with np.errstate(all="ignore"):
            intended, stale = run_intended_and_stale(
                programs[0],
                wide,
                runners[0],
                devices=first.signature.devices,
                most={},
                multiply=products.multiply,
            )
            new = run_program(
                programs[1], wide, runners[1], devices=changed.signature.devices, multiply=products.multiply
            )
        for name, old, lost, now in zip(names, intended, stale, new, strict=True):
            if old.shape != now.shape or not _is_same(now, old):
                different[name] = None
            if compute_error(lost, old) > _TELLS:
                telling[name] = None
    return OpaqueDifferences(different=tuple(different), telling=tuple(telling))


def _is_same(now: Array, old: Array) -> bool:
    return now.tobytes() == old.tobytes() or compute_error(now, old) <= _SAME
