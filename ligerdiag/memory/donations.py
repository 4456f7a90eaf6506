"""Finds for each donated argument the output that takes its bytes, or the reason why no output does.

JAX pairs donated arguments with outputs of the same shape, dtype and layout, in order; for arrays that are split over
devices XLA may pair more. If no output takes the bytes of a donated argument, the runtime frees them, at best after the
call, so the donation saves nothing while the program runs.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.shape import DTYPE_NAMES, HOST_SPACE, compute_byte_size, iterate_leaf_shapes, render_shape
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.memory.copy_sources import Names
from ligerdiag.memory.output_lines import find_output
from ligerdiag.model.memory import DonationFault

_SEPARATORS = re.compile(r"[._]")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedDonation:
    """A donated argument with the output that takes its bytes, or with the reason why no output does."""

    number: int
    """Parameter number of the argument."""
    bytes: int
    output: int | None
    """Number of the output that takes the argument's bytes; None if no output does."""
    fault: DonationFault | None
    why: str
    meant: int | None = None
    """Number of the output that would take the argument's bytes if the output had another dtype, sharding or layout. None
    if the fault does not concern one certain output.
    """


def judge_donations(
    program: HloModule | None,
    optimized: HloModule,
    donated: Collection[int],
    names: Names,
    dropped: Collection[int] = (),
    *,
    on_host: Collection[int] = (),
) -> tuple[JudgedDonation, ...]:
    """Returns a record for each donated argument, in the order of parameter numbers.

    program: the module from before the optimizations, in which arrays that are split over devices have their whole shapes.
    donated: parameter numbers of the arguments that the user donates. Arguments whose bytes an output takes, and those in
    XLA's list of donors, count as donated anyway.
    dropped: parameter numbers of the arguments that JAX drops from the user's program.
    on_host: parameter numbers of arguments in the host's memory, if the module does not say so itself.
    """
    spaces = _Spaces(optimized, on_host)
    taken = {
        entry.parameter_number: tuple(entry.output_shape_index)
        for entry in optimized.input_output_alias.entries
        if not entry.parameter_shape_index
    }
    leaves = [index for index, _ in iterate_leaf_shapes(optimized.entry.root.shape)]
    whole = optimized if program is None else program
    outputs = [shape for _, shape in iterate_leaf_shapes(whole.entry.root.shape)]
    local = [shape for _, shape in iterate_leaf_shapes(optimized.entry.root.shape)]
    claimed = {leaves.index(index): number for number, index in taken.items() if index in leaves}
    returned = frozenset(_list_returned(whole))
    given_shapes = {
        number: whole.entry.parameters[number].shape
        for number in sorted({*donated, *optimized.donors, *taken} - set(dropped))
        if 0 <= number < len(whole.entry.parameters)
    }
    results = _Outputs(outputs, local, claimed, returned, names, given_shapes)
    found: list[JudgedDonation] = []
    for number in sorted({*donated, *optimized.donors, *taken}):
        if not 0 <= number < len(optimized.entry.parameters):
            continue
        parameter = optimized.entry.parameters[number]
        size = sum(compute_byte_size(shape) or 0 for _, shape in iterate_leaf_shapes(parameter.shape))
        if number in dropped:
            fault, why = (
                DonationFault.DROPPED,
                "the function never reads the argument, so JAX drops it, and neither reuses nor deletes its bytes",
            )
            found.append(JudgedDonation(number=number, bytes=size, output=None, fault=fault, why=why))
            continue
        index = taken.get(number)
        if index is not None:
            output = leaves.index(index) if index in leaves else None
            if output is not None and not spaces.are_one(number, output):
                spare = spaces.take_spare(number, output, outputs, claimed)
                if spare is None:
                    why = spaces.describe(number, f"output {names.name_output(output)}")
                    fault = DonationFault.MEMORY
                    found.append(
                        JudgedDonation(number=number, bytes=size, output=None, fault=fault, why=why, meant=output)
                    )
                    continue
                output = spare
            found.append(JudgedDonation(number=number, bytes=size, output=output, fault=None, why=""))
            continue
        given = whole.entry.parameters[number].shape if number < len(whole.entry.parameters) else parameter.shape
        argument = names.arguments.get(number, "")
        earlier = [one.shape for one in whole.entry.parameters[:number]]
        rank = sum(1 for one in earlier if _has_dimensions(one, given) and one.element_type == given.element_type)
        shapes = _Shapes(number, argument, rank, given, parameter.shape)
        fault, why, meant = _find_fault(shapes, results)
        if not optimized.entry.users[parameter.id]:
            fault, why, meant = DonationFault.UNUSED, f"the program does not use it, and {why}", None
        found.append(JudgedDonation(number=number, bytes=size, output=None, fault=fault, why=why, meant=meant))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class DonationClash:
    """A donated argument whose bytes an output takes, although the call passes the same array as a second argument."""

    number: int
    """Parameter number of the argument."""
    output: int
    """Number of the output that takes the argument's bytes."""
    others: tuple[int, ...]
    """Parameter numbers of the other arguments that are the same array."""
    taken: tuple[int, ...]
    """The arguments among `others` that are donated as well: other outputs are to take their bytes."""


def find_clashes(
    judged: Sequence[JudgedDonation], shared: Sequence[Sequence[int]], dropped: Collection[int]
) -> Iterator[DonationClash]:
    """Yields the donations that XLA's runtime refuses because the call passes the donated array twice. Yields at most one
    for each array.

    An argument that JAX drops is not part of the call. An argument whose bytes no output takes does not count as donated.

    judged: all donated arguments. shared: groups of parameter numbers; the arguments of a group are one array. dropped:
    parameter numbers of the arguments that JAX drops.
    """
    outputs = {one.number: one.output for one in judged if one.output is not None}
    for group in shared:
        passed = [number for number in group if number not in dropped]
        taken = [number for number in passed if number in outputs]
        if taken and len(passed) > 1:
            yield DonationClash(
                number=taken[0],
                output=outputs[taken[0]],
                others=tuple([number for number in passed if number != taken[0]]),
                taken=tuple(taken[1:]),
            )


class _Spaces:
    """The memories, of host or device, in which the arguments and outputs of a module lie.

    If JAX knows the memory of every array, because the arrays are committed to their devices, it pairs a donated argument
    only with an output in the same memory. A described GPU has no memories for JAX, so the module may pair an argument with
    an output in the other memory.

    on_host: numbers of parameters in the host's memory, as far as the module itself does not say so.
    """

    def __init__(self, module: HloModule, on_host: Collection[int]) -> None:
        given = [number for number, space in enumerate(module.parameter_spaces) if space == HOST_SPACE]
        self._arguments = frozenset((*given, *on_host))
        self._outputs = frozenset(number for number, space in enumerate(module.output_spaces) if space == HOST_SPACE)
        self._spared: set[int] = set()

    def are_one(self, number: int, output: int) -> bool:
        """Returns whether an argument and an output are both in the device's memory, or both in the host's.

        number: the argument's parameter number. output: the output's number.
        """
        return (number in self._arguments) == (output in self._outputs)

    def take_spare(
        self, number: int, output: int, outputs: Sequence[ShapeProto], claimed: Mapping[int, int]
    ) -> int | None:
        """Returns the first output that could take a donated argument's bytes in place of `output`; None if there is none.

        It has the shape and dtype of `output`, is in the memory of the argument (the device's or the host's), and takes the
        bytes of no other argument. No output is returned twice.

        number: the argument's parameter number. outputs: the shapes of all outputs. claimed: maps the number of an output to
        the parameter number of the argument whose bytes it takes.
        """
        for other, shape in enumerate(outputs):
            is_like = _has_dimensions(shape, outputs[output]) and shape.element_type == outputs[output].element_type
            taker = claimed.get(other)
            is_taken = other in self._spared or (taker is not None and self.are_one(taker, other))
            if is_like and self.are_one(number, other) and not is_taken:
                self._spared.add(other)
                return other
        return None

    def describe(self, number: int, output: str) -> str:
        """Returns a clause about an argument and an output in different memories, which names the two memories. number: the
        argument's number. output: a phrase for the output.
        """
        place, other = ("device", "host") if number in self._arguments else ("host", "device")
        return f"{output} is in the memory of the {place}, and the argument in that of the {other}"


def _list_returned(module: HloModule) -> Iterator[int]:
    """Yields the numbers of the outputs that return an argument unchanged."""
    for number, _ in enumerate(iterate_leaf_shapes(module.entry.root.shape)):
        value = find_output(module, number)
        if value is not None and value.opcode == "parameter":
            yield number


@dataclass(frozen=True, slots=True)
class _Shapes:
    """The shapes of one donated argument: whole and on one device."""

    number: int
    name: str
    rank: int
    """Number of the argument among the donated arguments of its shape and dtype."""
    given: ShapeProto
    """Shape of the whole argument, before it is split over devices."""
    local: ShapeProto
    """Shape of the part of the argument on one device."""


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The outputs of the program, by number."""

    shapes: Sequence[ShapeProto]
    """Shapes of the whole outputs."""
    local: Sequence[ShapeProto]
    """For each output, the shape of its part on one device."""
    claimed: Mapping[int, int]
    """Maps the number of each output that takes the bytes of an argument to the number of that argument."""
    returned: Collection[int]
    """The outputs that return an argument unchanged."""
    names: Names
    donated: Mapping[int, ShapeProto]
    """Maps the number of each donated argument to the argument's whole shape."""


def _find_fault(shapes: _Shapes, results: _Outputs) -> tuple[DonationFault, str, int | None]:
    """Returns why no output takes an argument of these shapes: the kind of fault, a clause about it, and the number of
    the output that the clause is about, None if it is about no single one.
    """
    outputs, local_outputs, claimed, names = results.shapes, results.local, results.claimed, results.names
    given, local = shapes.given, shapes.local
    text = render_shape(given)
    alike = [n for n, shape in enumerate(outputs) if _has_dimensions(shape, given)]
    same = [n for n in alike if outputs[n].element_type == given.element_type]
    free = [n for n in same if n not in claimed]
    split = [n for n in same if not _has_dimensions(local_outputs[n], local)]
    if free or split:
        number = max(
            split or free,
            key=lambda n: (_compare_names(shapes.name, names.outputs, n), same.index(n) == shapes.rank, n in free, -n),
        )
        name = names.name_output(number)
        if not _has_dimensions(local_outputs[number], local):
            why = (
                f"output {name} is split over the devices in another way: each device holds {render_shape(local)} of the"
                f" argument and {render_shape(local_outputs[number])} of the output"
            )
            return DonationFault.SHARDING, why, number
        if list(local_outputs[number].layout.minor_to_major) != list(local.layout.minor_to_major):
            return DonationFault.LAYOUT, f"output {name} has another layout than the argument", number
        return (
            DonationFault.UNKNOWN,
            f"output {name} has the argument's shape and dtype, but does not take its bytes",
            number,
        )
    if same:
        if (other := _find_shift(shapes.number, results)) is not None:
            return other
        others = "the only output" if len(same) == 1 else f"each of the {len(same)} outputs"
        why = f"{others} of shape {text} takes the bytes of another donated argument"
        return DonationFault.SURPLUS, why, same[0] if len(same) == 1 else None
    if alike:
        return _find_other_dtype(shapes, results, [n for n in alike if n not in results.returned])
    arrays = [n for n, shape in enumerate(outputs) if shape.dimensions]
    if not arrays:
        what = "a scalar" if len(outputs) == 1 else "scalars"
        return (
            DonationFault.NO_OUTPUT,
            f"the program returns {what}" if outputs else "the program returns nothing",
            None,
        )
    closest = max(
        arrays,
        key=lambda n: (
            _compare_names(shapes.name, names.outputs, n)[0],
            outputs[n].element_type == given.element_type,
            -n,
        ),
    )
    largest = render_shape(outputs[closest])
    why = f"no output has the shape {text}; output {names.name_output(closest)} is {largest}"
    return DonationFault.SHAPE, why, None


def _find_shift(number: int, results: _Outputs) -> tuple[DonationFault, str, int] | None:
    """Returns the same as `_find_fault` for an argument whose own output (`_find_own`) has another dtype, or takes the bytes
    of another argument because that argument's own output has another dtype. None if the cause is not such an output.

    JAX gives each output the bytes of the first free argument of its shape and dtype. So one output of another dtype shifts
    the pairs: each output after it takes the bytes of the argument before its own.
    """
    current, first, seen, wanted = number, number, {number}, None
    while (own := _find_own(current, results)) is not None:
        if results.shapes[own].element_type != results.donated[current].element_type:
            dtypes = [DTYPE_NAMES.get(one.element_type, "?") for one in (results.shapes[own], results.donated[current])]
            why = f"output {results.names.name_output(own)} has the same shape, but is {dtypes[0]}, not {dtypes[1]}"
            if wanted is not None:
                why = (
                    f"output {results.names.name_output(wanted)} takes the bytes of argument"
                    f" {results.names.name_argument(first)}, because output {results.names.name_output(own)} is"
                    f" {dtypes[0]}, not {dtypes[1]}"
                )
            return DonationFault.DTYPE, why, own
        taker = results.claimed.get(own)
        if taker is None or taker in seen or taker not in results.donated:
            return None
        if wanted is None:
            wanted, first = own, taker
        seen.add(taker)
        current = taker
    return None


def _find_own(number: int, results: _Outputs) -> int | None:
    """Returns the number of the output that is meant to replace an argument; None if this is unclear.

    Among the outputs of the argument's shape, it is the output with the most similar name. If no name is similar, and there
    are as many such outputs as donated arguments of this shape, it is the output at the same place among them.
    """
    given = results.donated[number]
    alike = [n for n, one in enumerate(results.shapes) if _has_dimensions(one, given) and n not in results.returned]
    if not alike:
        return None
    argument = results.names.arguments.get(number, "")
    best = max(alike, key=lambda n: (*_compare_names(argument, results.names.outputs, n), -n))
    if _compare_names(argument, results.names.outputs, best)[0]:
        return best
    peers = [n for n, shape in results.donated.items() if _has_dimensions(shape, given)]
    return alike[peers.index(number)] if len(peers) == len(alike) else None


def _find_other_dtype(
    shapes: _Shapes, results: _Outputs, computed: Sequence[int]
) -> tuple[DonationFault, str, int | None]:
    """Returns the same as `_find_fault` for an argument with whose shape the program returns arrays only in other dtypes.

    The output that is meant to replace the argument is the output with the most similar name; among equally similar names,
    an output that takes the bytes of no other argument. If no name is similar, and all these outputs take the bytes of other
    arguments, no output is meant. computed: the numbers of the outputs of this shape that do not return an argument
    unchanged.
    """
    own = DTYPE_NAMES.get(shapes.given.element_type)
    if not computed:
        why = f"each output of the same shape returns another argument unchanged, and no such output is {own}"
        return DonationFault.NO_OUTPUT, why, None

    def weigh(number: int) -> tuple[int, bool, int, int]:
        common, others = _compare_names(shapes.name, results.names.outputs, number)
        return common, number not in results.claimed, others, -number

    number = max(computed, key=weigh)
    if not weigh(number)[0] and number in results.claimed:
        others = "the only output" if len(computed) == 1 else f"each of the {len(computed)} outputs"
        why = f"{others} of the same shape takes the bytes of another donated argument, and no such output is {own}"
        return DonationFault.SURPLUS, why, None
    dtype = DTYPE_NAMES.get(results.shapes[number].element_type, "another dtype")
    why = f"output {results.names.name_output(number)} has the same shape, but is {dtype}, not {own}"
    return DonationFault.DTYPE, why, number


def _compare_names(argument: str, outputs: Sequence[str], number: int) -> tuple[int, int]:
    """Returns how similar an output's name is to an argument's: the number of parts that the ends of both names have in
    common, and minus the number of the output's other parts. For `state.mu.w` and `0.mu.w` it returns (2, -1).
    """
    if number >= len(outputs):
        return 0, 0
    parts = _SEPARATORS.split(outputs[number])
    pairs = zip(reversed(_SEPARATORS.split(argument)), reversed(parts), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return common, common - len(parts)


def _has_dimensions(one: ShapeProto, other: ShapeProto) -> bool:
    return list(one.dimensions) == list(other.dimensions)
