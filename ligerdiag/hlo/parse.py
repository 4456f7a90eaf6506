"""Builds the HLO view from untrusted bytes: checks every reference and raises ArtifactError."""

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sys import intern

from google.protobuf.message import DecodeError

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment, parse_buffer_assignment
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath, parse_tag_path
from ligerdiag.hlo.opcodes import OPCODES, Trait, having
from ligerdiag.hlo.shape import InvalidAlias, iterate_leaf_shapes, take_invalid_aliases
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloModuleProto, HloProto
from ligerdiag.untrusted_files import MAXIMUM_FILE_BYTES, read_untrusted

_FROZEN_AT_START = 1000
"""Number of frozen objects above which a caller has used gc.freeze: Python itself freezes 375 at start, a caller far
more.
"""


@contextmanager
def pause_collector(*, keep: bool = False) -> Generator[None]:
    """Pauses Python's garbage collector while a view of a module is built. The view has so many small objects that the
    collector would double the time.

    keep: whether to move the objects that are made meanwhile to the collector's oldest generation without a search. They are
    not moved if the caller has frozen objects (`gc.freeze`), because these would be unfrozen.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if keep and was_enabled and gc.get_freeze_count() < _FROZEN_AT_START:
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def load_hlo(path: Path) -> tuple[HloModule, BufferAssignment | None]:
    """Returns the module of an `.hlo.pb` file (an HloProto), and its buffer assignment, or None if it has none. Raises
    ArtifactError if the file is not an HloProto.
    """
    data = read_untrusted(path, MAXIMUM_FILE_BYTES)
    try:
        return parse_hlo(data)
    except ArtifactError as error:
        raise ArtifactError(f"`{path.name}`: {error}") from error


def parse_hlo(data: bytes) -> tuple[HloModule, BufferAssignment | None]:
    """Returns the module of a serialized HloProto, and its buffer assignment, or None if it has none.

    Raises ArtifactError if the bytes are not an HloProto, or its references do not resolve.
    """
    proto = _decode(HloProto(), data)
    if not proto.hlo_module.computations:
        raise ArtifactError("holds no HLO module (expected an HloProto, as `--xla_dump_hlo_as_proto` writes it)")
    module = parse_module(proto.hlo_module)
    if not proto.HasField("buffer_assignment"):
        return module, None
    return module, parse_buffer_assignment(proto.buffer_assignment, module)


def parse_hlo_module(data: bytes) -> HloModule:
    """Returns the module of a serialized HloModuleProto. Raises ArtifactError as `parse_hlo` does."""
    proto = _decode(HloModuleProto(), data)
    if not proto.computations:
        raise ArtifactError("holds no HLO module")
    return parse_module(proto)


def _decode[Message: (HloProto, HloModuleProto)](message: Message, data: bytes) -> Message:
    """Fills the message from the bytes and returns it. Raises MemoryError if memory is exhausted, ArtifactError if the
    bytes are not such a message; protobuf raises one exception for both.
    """
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        what = type(message).__name__
        raise MemoryError if "alloc" in str(error) else ArtifactError(f"truncated or not an {what}") from error
    return message


def parse_module(proto: HloModuleProto) -> HloModule:
    """Returns the view of an HloModuleProto. Raises ArtifactError if a reference in it does not resolve."""
    computations: dict[int, HloComputation] = {}
    tags: dict[int, TagPath] = {}
    invalid_aliases: list[InvalidAlias] = []
    ids: set[int] = set()
    count = 0
    sequences = proto.schedule.sequences
    for computation_proto in proto.computations:
        order = sequences[computation_proto.id].instruction_ids if computation_proto.id in sequences else ()
        computation = _parse_computation(computation_proto, tuple(order), computations, tags)
        for one in computation.instructions:
            if one.opcode in _ALIASING and one.proto.output_operand_aliasing:
                invalid_aliases += take_invalid_aliases(one.proto, [operand.shape for operand in one.operands])
        if computations.setdefault(computation.id, computation) is not computation:
            raise ArtifactError(f"two computations have the id {computation.id}")
        ids.update([instruction.id for instruction in computation.instructions])
        count += len(computation.instructions)
        if len(ids) != count:  # tags, and the buffer assignment, name an instruction of the module by its id
            raise ArtifactError(f"`{computation.name}` and another computation have an instruction of the same id")
    entry = computations.get(proto.entry_computation_id)
    if entry is None:
        raise ArtifactError(f"the entry computation `{proto.entry_computation_name}` is missing")
    return HloModule(
        name=proto.name,
        entry=entry,
        computations=computations,
        stack_frames=proto.stack_frame_index,
        input_output_alias=proto.input_output_alias,
        parameter_spaces=tuple([one.layout.memory_space for one in proto.host_program_shape.parameters]),
        output_spaces=tuple(
            [one.layout.memory_space for _, one in iterate_leaf_shapes(proto.host_program_shape.result)]
        ),
        donors=tuple([one.parameter_number for one in proto.buffer_donor.entries if not one.parameter_shape_index]),
        replica_count=max(proto.device_assignment.replica_count, 1),
        frontend_attributes=dict(proto.frontend_attributes.map),
        tags=tags,
        invalid_aliases=invalid_aliases,
        number=proto.id,
    )


_ALIASING = having(Trait.DECLARES_ALIASES)
_NEEDS_OPERAND = having(Trait.NEEDS_OPERAND)
_DONES = having(Trait.DONE) - {"recv-done", "send-done"}
_CALLEES = {"while": 2, "call": 1, "fusion": 1, "conditional": 1, "async-start": 1}
"""Maps an opcode to the least number of computations that such an instruction calls."""
_OPERANDS_ARE_PARAMETERS = having(Trait.CALLEE_TAKES_OPERANDS)


def _check_form(instruction: HloInstruction, callees: dict[int, HloComputation]) -> None:
    """Raises ArtifactError where an instruction lacks operands or computations that its opcode requires."""
    name, opcode, operands = instruction.name, instruction.opcode, instruction.operands
    if opcode not in OPCODES:
        raise ArtifactError(f"`{name}` has the opcode `{opcode:.40}`, which XLA does not have")
    if opcode not in _ALIASING and instruction.proto.output_operand_aliasing:
        raise ArtifactError(f"`{name}` declares aliases, which the opcode `{opcode}` does not allow")
    if not operands and opcode in _NEEDS_OPERAND:
        raise ArtifactError(f"`{name}` has no operand, but the opcode `{opcode}` needs one")
    if opcode in _DONES and operands[0].opcode == "tuple":
        raise ArtifactError(f"`{name}` is a `{opcode}`, but its operand `{operands[0].name}` is a tuple, not a start")
    called = instruction.called_computations
    if len(called) < _CALLEES.get(opcode, 0):
        raise ArtifactError(
            f"`{name}` calls {len(called)} computations, but the opcode `{opcode}` needs {_CALLEES[opcode]}"
        )
    if opcode == "conditional" and len(operands) != len(called) + 1:
        raise ArtifactError(
            f"`{name}` has {len(operands)} operands, but its {len(called)} branches need {len(called) + 1}"
        )
    if opcode in _OPERANDS_ARE_PARAMETERS:
        numbers = [parameter.proto.parameter_number for parameter in callees[called[0]].parameters]
        if numbers != list(range(len(operands))):
            raise ArtifactError(
                f"`{name}` passes {len(operands)} operands, but its computation has the parameters {numbers}"
            )
    if opcode == "while" and any(len(callees[callee].parameters) != 1 for callee in called):
        raise ArtifactError(f"the condition or the body of the loop `{name}` does not have exactly one parameter")


def _parse_computation(
    proto: HloComputationProto, order: tuple[int, ...], callees: dict[int, HloComputation], tags: dict[int, TagPath]
) -> HloComputation:
    by_id: dict[int, HloInstruction] = {}
    for message in proto.instructions:
        called = tuple(message.called_computation_ids)
        for callee in called:
            if callee not in callees:  # also rules out recursion: callees come first in a well-formed module
                raise ArtifactError(
                    f"`{message.name}` calls computation {callee}, but no computation before it has this id"
                )
        try:
            operands = tuple([by_id[operand] for operand in message.operand_ids])
        except KeyError as error:
            raise ArtifactError(
                f"`{message.name}` has operand {error.args[0]}, but no instruction before it has this id"
            ) from error
        op_name = message.metadata.op_name
        instruction = HloInstruction(
            message.id,
            message.name,
            intern(message.opcode),
            operands,
            tuple(message.control_predecessor_ids),
            called,
            message,
            message.shape,
            op_name,
        )
        path = parse_tag_path(op_name)
        if path:
            tags[message.id] = path
        _check_form(instruction, callees)
        if by_id.setdefault(message.id, instruction) is not instruction:
            raise ArtifactError(f"two instructions of `{proto.name}` have the id {message.id}")
    try:
        root = by_id[proto.root_id]
        sequence = tuple([by_id[instruction_id] for instruction_id in order])
    except KeyError as error:
        raise ArtifactError(
            f"`{proto.name}` refers to instruction {error.args[0]}, which it does not contain"
        ) from error
    if sequence and not len(sequence) == len(set(order)) == len(by_id):
        raise ArtifactError(f"the schedule of `{proto.name}` does not list each of its instructions exactly once")
    return HloComputation(
        id=proto.id,
        name=proto.name,
        instructions=tuple(by_id.values()),
        root=root,
        sequence=sequence,
        is_fusion=proto.is_fusion_computation,
        proto=proto,
    )


def require_same_operands(program: HloModule, optimized: HloModule) -> None:
    """Raises ArtifactError if calls of one kernel have different numbers of operands in the two modules. XLA never changes
    this number.
    """
    written, left = _count_operands(program), _count_operands(optimized)
    for kernel in written.keys() & left.keys():
        if not left[kernel] <= written[kernel]:
            raise ArtifactError(f"`{optimized.name}` calls a kernel with more or fewer operands than the program does")


def _count_operands(module: HloModule) -> Mapping[tuple[str, bytes], set[int]]:
    found: dict[tuple[str, bytes], set[int]] = {}
    for _, call in module.iterate_custom_calls():
        found.setdefault(call.kernel, set()).add(len(call.operands))
    return found
