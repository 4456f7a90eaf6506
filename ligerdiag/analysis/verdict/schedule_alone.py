"""Judges a schedule without the program as written, and finds the entry parameters from which its values are computed.

Without the program, the author's order and the version that each reader should see are unknown. An output is fresh only if
it depends neither on a hidden write nor on any entry parameter from which the overwritten value was computed. Then the
output contains nothing of that value, whether overwritten, copied or recomputed. A kernel's result is never taken to be free
of the value that the kernel overwrites, because XLA may have merged two calls of which the second should see the first one's
write. Every other output is unknown. If the overwritten value is computed from no parameter, the program may recompute it
anywhere, and all outputs are unknown. An output is unknown if a read on which it depends races with a kernel (see `races`).
Without a schedule every output is unknown as soon as there is a hidden write.

A backward slice finds the entry parameters from which a value is computed, element by element for tuples. It looks
through operations that only pass a value on (see `hlo.dataflow`): into fusions, calls, branches and loops, and out to
all callers. It includes a conditional's predicate and a loop's condition, and all operands of any other operation. A
kernel that overwrites a value adds everything that it reads.

Donated arguments that XLA mixes up (https://github.com/jax-ml/jax/issues/39625) make outputs wrong without any kernel. If
the buffer assignment puts an entry parameter into another parameter's allocation, a reader of one gets the other. Every
output that depends on such a parameter is unknown, and so is every output that is returned in the buffer of such a
parameter. A compile for a GPU that the machine does not have never shows this. A compile for the machine's own GPU omits
copies that it needs in one case: one computed value of one element is returned in place of three or more donated arguments,
two of which are also returned unchanged. Seen on an H200 with jaxlib 0.11.2: `tests/analysis/programs/donated.py`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.races import RacedRead
from ligerdiag.analysis.verdict.comparison import Cause, OutputVerdict
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position, Positions, search
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex, count_elements, iterate_leaf_shapes, iterate_leaves
from ligerdiag.model.findings import Verdict

_NAMES = PassThrough(bitcasts=True, barriers=True, tuples=True)
_COPIED_FROM = replace(_NAMES, fusions=True, arguments=True)
_MIXED_UP = 3
"""Smallest number of donated arguments that XLA is known to mix up when it returns one value in all of their buffers.
"""
_MADE_FROM = replace(_NAMES, calls=True, fusions=True, branches=True, loop_entry=True, loop_back=True, arguments=True)


class BackwardSlices:
    """Finds the entry parameters of one module from which given values are computed."""

    def __init__(self, module: HloModule, overwriting: Iterable[tuple[HloInstruction, int]]) -> None:
        """Prepares the search in a module. overwriting: (kernel call, number of the operand) of each hidden write."""
        self._module = module
        self._flow = Dataflow(module, _MADE_FROM)
        self._overwritten: defaultdict[int, list[tuple[ShapeIndex, HloInstruction]]] = defaultdict(list)
        names = Dataflow(module, _NAMES)
        for call, operand in overwriting:
            value, index = names.find_definition(call.operands[operand])
            self._overwritten[value.id].append((index, call))

    def find_parameters(self, value: HloInstruction, index: ShapeIndex = ()) -> frozenset[int]:
        """Returns the numbers of the entry parameters from which a leaf of a value is computed. index: () for the whole
        value.
        """
        parameters = {parameter.id for parameter in self._module.entry.parameters}
        found = search([(value, index)], self._list_sources)
        return frozenset(one.proto.parameter_number for one, _ in found if one.id in parameters)

    def _list_sources(self, position: Position) -> Iterator[Position]:
        value, index = position
        passed_on = list(self._flow.list_sources(value, index))
        yield from passed_on
        if value.opcode == "while":
            yield self._module.computations[value.called_computations[1]].root, ()
        elif value.opcode == "conditional":
            yield value.operands[0], ()
        elif not passed_on:
            yield from [(operand, ()) for operand in value.operands]
        for leaf, call in self._overwritten.get(value.id, ()):
            if leaf[: len(index)] == index[: len(leaf)]:
                yield from [(operand, ()) for operand in call.operands]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedUpDonations:
    """Donated arguments that XLA mixes up: it keeps several of them in one buffer."""

    parameters: frozenset[int]
    """Numbers of the entry parameters that are mixed up."""
    outputs: frozenset[int]
    """Numbers of the outputs that may be wrong."""
    is_seen: bool
    """Whether the buffer assignment shows the mix-up; otherwise the module only has the pattern for which XLA is known
    to mix up donations.
    """
    value: HloInstruction
    """A parameter that is in another parameter's buffer, or the value that is returned in the buffers of the arguments.
    """


def find_mixed_up_donations(
    module: HloModule, buffers: BufferAssignment | None, *, is_described: bool
) -> MixedUpDonations | None:
    """Returns the donated arguments that XLA mixes up in this compile; None if there are none.

    buffers: XLA's own buffer assignment; None if unknown. is_described: whether XLA compiled for a GPU from its
    description alone. If so, and `buffers` shows no mix-up, returns the arguments that XLA is known to mix up when it
    compiles for the machine's own GPU.
    """
    if not module.input_output_alias.entries:
        return None
    found = _find_displaced(module, buffers) if buffers is not None else None
    is_seen = found is not None
    if found is None and is_described:
        found = _find_likely(module)
    if found is None:
        return None
    value, parameters = found
    outputs = frozenset(_list_outputs_of(module, parameters))
    return MixedUpDonations(parameters=parameters, outputs=outputs, is_seen=is_seen, value=value)


def _find_displaced(module: HloModule, buffers: BufferAssignment) -> tuple[HloInstruction, frozenset[int]] | None:
    """Returns an entry parameter that XLA keeps in another parameter's allocation, and the numbers of all parameters
    concerned, on either side; None if every parameter has its own allocation.
    """
    positions = Positions(module, buffers)
    found: set[int] = set()
    displaced: HloInstruction | None = None
    for parameter in module.entry.parameters:
        number = parameter.proto.parameter_number
        for index in iterate_leaves(parameter.shape):
            place = positions.find(parameter, index)
            given = None if place is None else buffers.parameters.get(buffers.slices[place].allocation)
            if given is not None and given != (number, index):
                displaced = parameter
                found |= {number, given[0]}
    return None if displaced is None else (displaced, frozenset(found))


def _find_likely(module: HloModule) -> tuple[HloInstruction, frozenset[int]] | None:
    """Returns a value that is returned in the buffers of several donated arguments, and the numbers of these arguments;
    None if there is no value with the pattern that XLA is known to mix up.
    """
    root, flow = module.entry.root, Dataflow(module, _COPIED_FROM)
    parameters = {one.id: one.proto.parameter_number for one in module.entry.parameters}
    donated = {tuple(one.output_shape_index): one.parameter_number for one in module.input_output_alias.entries}
    returned: set[int] = set()
    instead: defaultdict[Position, set[int]] = defaultdict(set)
    for index, shape in iterate_leaf_shapes(root.shape):
        value, inner = flow.find_definition(root, index)
        while value.opcode == "copy":
            value, inner = flow.find_definition(value.operands[0])
        if value.id in parameters:
            returned.add(parameters[value.id])
        elif index in donated and count_elements(shape) == 1 and value.opcode != "constant":
            instead[value, inner].add(donated[index])
    for (value, _), numbers in instead.items():
        if len(numbers) >= _MIXED_UP and len(numbers & returned) > 1:
            return value, frozenset(numbers)
    return None


def _list_outputs_of(module: HloModule, parameters: frozenset[int]) -> Iterator[int]:
    """Yields the numbers of the outputs that depend on one of the parameters, or are returned in the buffer of one."""
    slices, root = BackwardSlices(module, ()), module.entry.root
    entries = module.input_output_alias.entries
    taken = {tuple(one.output_shape_index) for one in entries if one.parameter_number in parameters}
    for number, index in enumerate(iterate_leaves(root.shape)):
        if index in taken or parameters & slices.find_parameters(root, index):
            yield number


def judge_outputs_alone(pair: EvaluatedPair, output_names: tuple[str, ...]) -> Mapping[str, OutputVerdict]:
    """Returns the verdict on each output if only the schedule is known. An output that may depend on hidden writes is
    unknown, with a cause for each of them. Any other output is fresh.
    """
    unknown: Mapping[str, set[int]] = {name: {write.index for write in pair.writes} for name in output_names}
    if pair.writes and pair.optimized.is_scheduled:
        unknown = _find_unknown(pair.optimized, output_names, pair.writes)
    unplaced = {write.index for write in pair.matching.unplaced}
    actual = pair.actual.outputs
    return {
        name: _judge(pair, actual[number] if number < len(actual) else 0, unknown[name] | unplaced)
        for number, name in enumerate(output_names)
    }


def _find_unknown(module: HloModule, names: tuple[str, ...], writes: tuple[HiddenWrite, ...]) -> Mapping[str, set[int]]:
    """Maps each output name to the indices of the hidden writes whose overwritten value is computed from an entry
    parameter from which the output is computed too, or from no parameter at all.
    """
    slices = BackwardSlices(module, [(write.call, write.operand) for write in writes])
    overwritten = {w.index: slices.find_parameters(w.call.operands[w.operand]) for w in writes}
    root = module.entry.root
    found: dict[str, set[int]] = {}
    for name, index in zip(names, iterate_leaves(root.shape), strict=True):
        own = slices.find_parameters(root, index)
        found[name] = {write for write, numbers in overwritten.items() if not numbers or own & numbers}
    return found


def _judge(pair: EvaluatedPair, labels: Labels, unknown: set[int]) -> OutputVerdict:
    raced = [key for key in pair.space.marks_in(labels) if isinstance(key, RacedRead)]
    touched = unknown | {key.write for key in raced}
    causes = tuple(
        [
            Cause(write.index, Verdict.UNKNOWN, raced=tuple([key for key in raced if key.write == write.index]))
            for write in pair.writes
            if write.index in touched or labels & pair.space.all_fresh(write.index)
        ]
    )
    return OutputVerdict(Verdict.UNKNOWN if causes else Verdict.FRESH, causes)
