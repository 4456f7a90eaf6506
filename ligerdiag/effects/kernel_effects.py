"""Maps the effects of a kernel on its arguments to the effects of its custom call on the call's buffers.

The launcher (jaxlib/gpu/triton_kernels.cc, KernelCall::Launch) gives each parameter that is an array or a tensor
descriptor the next buffer of the call, operands before outputs, whatever the names of the parameters. If there are more
buffers than such parameters, the last buffers have no pointer in the kernel:

- With jax-triton since 0.4, the outputs of Refs, which come last, have no pointer. (Its deprecated `input_output_aliases`
  can alias an output that is not last: the kernel's pointers are then shifted by one.)
- With jax-triton before 0.4, an aliased output has a pointer of its own after the inputs' pointers.

Constants, None and values equal to 1 are missing from both the parameters and the function's arguments. An autotuning
launcher runs all configurations on the real buffers before it picks one, so the effects of the call include the effects of
all configurations.
"""

from collections.abc import Sequence

from ligerdiag.effects.access import (
    UNUSED,
    Access,
    CallEffects,
    InPlace,
    OperandUse,
    compute_plain_use,
    create_unknown_effects,
    join_all,
    join_in_place,
    join_uses,
)
from ligerdiag.effects.launches.uses import Argument, compute_in_place, compute_launch_uses
from ligerdiag.effects.payload import LaunchConfiguration, Parameter
from ligerdiag.effects.pointer_flow import ArgumentEffects, compute_argument_effects, find_store_lines
from ligerdiag.effects.ptx import find_ptx_writes
from ligerdiag.effects.store_sources import compute_store_sources
from ligerdiag.effects.ttir_module import TtirModule, parse_ttir
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.dataflow import unite
from ligerdiag.model.findings import SourceLine

_MALFORMED_IR_ERRORS = (ArithmeticError, AssertionError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""Errors that malformed IR, which a payload may contain, can raise. After such an error the accesses that
`pointer_flow` has found are still valid.
"""


def compute_kernel_effects(
    calls: Sequence[LaunchConfiguration], *, operands: int, outputs: int, sizes: Sequence[int | None] = ()
) -> CallEffects:
    """Returns the effects of a custom call that launches a kernel in one of several configurations.

    calls: the configurations. operands, outputs: how many operands and outputs the call has. sizes: bytes of each operand,
    then of each output; () if unknown. Effects that cannot be proven are UNKNOWN.
    """
    modules: dict[bytes, TtirModule | str] = {}
    sizes = tuple(sizes) if len(sizes) == operands + outputs else (None,) * (operands + outputs)
    per_call = [_compute_configuration(call, operands, outputs, sizes, modules) for call in calls]
    return CallEffects(
        kernel=calls[0].function,
        operands=tuple(join_all(effects.operands[index] for effects in per_call) for index in range(operands)),
        outputs=tuple(join_all(effects.outputs[index] for effects in per_call) for index in range(outputs)),
        reasons=tuple(dict.fromkeys(reason for effects in per_call for reason in effects.reasons)),
        configurations=len(calls),
        saved=calls[0].saved,
        grid=calls[0].grid,
        operand_uses=tuple(join_uses(effects.operand_uses[index] for effects in per_call) for index in range(operands)),
        output_uses=tuple(join_uses(effects.output_uses[index] for effects in per_call) for index in range(outputs)),
        in_place=join_in_place([effects.in_place for effects in per_call]),
        result_sources=_join_sources([effects.result_sources for effects in per_call]),
        operand_stores=tuple(
            tuple(dict.fromkeys(line for effects in per_call for line in effects.operand_stores[index]))
            for index in range(operands)
        ),
        operand_names=tuple(
            _join_names([effects.operand_names[index] for effects in per_call]) for index in range(operands)
        ),
    )


def _join_sources(found: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Returns the sources of the results if all configurations have the same ones. A configuration that the launcher tries
    may otherwise store an operand's contents where the next one reads them.
    """
    return found[0] if len(set(found)) == 1 else None


def _find_result_sources(
    module: TtirModule, entry: str, numbers: Sequence[int | None], operands: int
) -> tuple[int, ...] | None:
    """Returns the value of `CallEffects.result_sources`.

    numbers: for each argument of the function `entry`, the number of its buffer, or None (see `_assign_buffers`).
    """
    try:
        sources = compute_store_sources(module, entry)
    except _MALFORMED_IR_ERRORS:
        return None
    if sources is None:
        return None
    own = unite(
        bits for number, bits in zip(numbers, sources, strict=True) if number is not None and number >= operands
    )
    found = [number for at, number in enumerate(numbers) if number is not None and own & (1 << (at + 1))]
    return tuple(number for number in found if number < operands)


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(set(names)) == 1 else ""


def _compute_configuration(
    call: LaunchConfiguration,
    operands: int,
    outputs: int,
    sizes: Sequence[int | None],
    modules: dict[bytes, TtirModule | str],
) -> CallEffects:
    if call.ptx:
        return _compute_by_ptx(call, operands, outputs)
    if call.mlir not in modules:
        try:
            modules[call.mlir] = parse_ttir(call.mlir)
        except ArtifactError as error:
            modules[call.mlir] = str(error)
    module = modules[call.mlir]
    if isinstance(module, str):
        return _create_unknown(call, operands, outputs, f"{module} (kernel `{call.function}`)")
    try:
        effects = compute_argument_effects(module, call.function)
    except ArtifactError as error:
        return _create_unknown(call, operands, outputs, str(error))
    numbers = _assign_buffers(call, effects, operands + outputs)
    if isinstance(numbers, str):
        return _create_unknown(call, operands, outputs, numbers)
    accesses = [Access.NONE] * (operands + outputs)
    for number, access, parameter in zip(numbers, effects.accesses, _get_parameters(call, effects), strict=True):
        if number is not None:
            accesses[number] = access.cover(Access.WRITE) if parameter.bytes_to_zero else access
    arguments = _make_arguments(call, effects, numbers, sizes, operands)
    uses = [UNUSED] * len(sizes)
    for number, use in zip(numbers, _compute_uses(call, effects, arguments, module), strict=True):
        if number is not None:
            uses[number] = use
    return CallEffects(
        kernel=call.function,
        operands=tuple(accesses[:operands]),
        outputs=tuple(accesses[operands:]),
        reasons=effects.reasons if Access.UNKNOWN in accesses else (),
        grid=call.grid,
        operand_uses=tuple(uses[:operands]),
        output_uses=tuple(uses[operands:]),
        in_place=_compute_in_place(call, effects, numbers, arguments, module),
        result_sources=_find_result_sources(module, call.function, numbers, operands),
        operand_stores=_find_operand_stores(module, call.function, numbers, operands),
        operand_names=_find_operand_names(module.functions[call.function].names, numbers, operands),
    )


def _compute_by_ptx(call: LaunchConfiguration, operands: int, outputs: int) -> CallEffects:
    """Returns the effects of a kernel whose payload has PTX and no Triton IR: a write to the buffers that the PTX may
    write, and a read of every buffer that the kernel receives. All are UNKNOWN if the PTX may write anywhere.
    """
    parameters = call.parameters or ()
    buffers = [number for number, parameter in enumerate(parameters) if parameter.is_buffer]
    if len(buffers) > operands + outputs:
        reason = f"`{call.function}` takes {len(buffers)} buffers, but the call has {operands + outputs}"
        return _create_unknown(call, operands, outputs, reason)
    found = find_ptx_writes(call.ptx, call.function, [parameter.is_buffer for parameter in parameters])
    if found.reason or any(parameter.is_descriptor for parameter in parameters):
        reason = found.reason or "writes through the tensor descriptor that it takes cannot be found in PTX"
        return _create_unknown(
            call, operands, outputs, f"the payload of `{call.function}` has no Triton IR, and {reason}"
        )
    accesses = [Access.READ] * len(buffers) + [Access.NONE] * (operands + outputs - len(buffers))
    for number, parameter in enumerate(buffers):
        if parameter in found.parameters or parameters[parameter].bytes_to_zero:
            accesses[number] = Access.READ_WRITE
    uses = [compute_plain_use(access, f"`{call.function}` has PTX, but no Triton IR") for access in accesses]
    return CallEffects(
        kernel=call.function,
        operands=tuple(accesses[:operands]),
        outputs=tuple(accesses[operands:]),
        grid=call.grid,
        operand_uses=tuple(uses[:operands]),
        output_uses=tuple(uses[operands:]),
    )


def _find_operand_stores(
    module: TtirModule, entry: str, numbers: Sequence[int | None], operands: int
) -> tuple[tuple[SourceLine, ...], ...]:
    """Returns, for each of the call's `operands` operands, the source lines of the kernel that store to it.

    numbers: for each argument of the function `entry`, the number of its buffer, or None (see `_assign_buffers`).
    """
    found: list[tuple[SourceLine, ...]] = [()] * operands
    for number, lines in zip(numbers, find_store_lines(module, entry), strict=False):
        if number is not None and number < operands:
            found[number] = lines
    return tuple(found)


def _find_operand_names(names: Sequence[str], numbers: Sequence[int | None], operands: int) -> tuple[str, ...]:
    """Returns, for each of the call's `operands` operands, the name of the kernel's parameter that gets it; empty where
    unknown.

    names: the names of the kernel's arguments, () if unknown. numbers: for each argument, the number of its buffer, or None
    (see `_assign_buffers`).
    """
    named = {number: name for number, name in zip(numbers, names, strict=False) if number is not None}
    return tuple(named.get(number, "") for number in range(operands))


def _create_unknown(call: LaunchConfiguration, operands: int, outputs: int, reason: str) -> CallEffects:
    return create_unknown_effects(kernel=call.function, operands=operands, outputs=outputs, reason=reason)


def _get_parameters(call: LaunchConfiguration, effects: ArgumentEffects) -> Sequence[Parameter]:
    return call.parameters if call.parameters is not None else [Parameter(is_buffer=True)] * len(effects.accesses)


def _assign_buffers(call: LaunchConfiguration, effects: ArgumentEffects, total: int) -> list[int | None] | str:
    """Returns, for each argument of the kernel, the number of the call's buffer (operands before outputs) to which it
    points, or None for a scalar.

    Returns a message instead if the arguments do not fit the call, which has `total` buffers.
    """
    arguments = len(effects.accesses)
    if call.parameters is None:
        if arguments != total or not all(effects.is_pointer):
            return f"`{call.function}` takes {arguments} arguments, but the call has {total} buffers"
        return list(range(total))
    if arguments != len(call.parameters):
        return f"`{call.function}` takes {arguments} arguments, but the call passes {len(call.parameters)} parameters"
    numbers: list[int | None] = []
    taken = 0
    for parameter, is_pointer in zip(call.parameters, effects.is_pointer, strict=True):
        if parameter.is_buffer != is_pointer:
            return f"the parameters of the call do not match the arguments of `{call.function}`"
        numbers.append(taken if parameter.is_buffer else None)
        taken += parameter.is_buffer
    if taken > total:
        return f"`{call.function}` takes {taken} buffers, but the call has {total}"
    return numbers


def _make_arguments(
    call: LaunchConfiguration,
    effects: ArgumentEffects,
    numbers: Sequence[int | None],
    sizes: Sequence[int | None],
    operands: int,
) -> list[Argument]:
    return [
        Argument(
            is_buffer=number is not None,
            size=sizes[number] if number is not None else None,
            zeroed=parameter.bytes_to_zero,
            value=parameter.value,
            is_descriptor=parameter.is_descriptor,
            is_output=number is not None and number >= operands,
        )
        for number, parameter in zip(numbers, _get_parameters(call, effects), strict=True)
    ]


def _compute_uses(
    call: LaunchConfiguration, effects: ArgumentEffects, arguments: Sequence[Argument], module: TtirModule
) -> tuple[OperandUse, ...]:
    """Returns how the kernel uses the buffer of each of its arguments; UNUSED for a scalar."""
    try:
        return compute_launch_uses(
            module, call.function, arguments=arguments, accesses=effects.accesses, grid=call.grid
        )
    except _MALFORMED_IR_ERRORS as error:
        reason = f"the analysis of `{call.function}` raised {type(error).__name__}"
        return tuple(
            argument.compute_plain_use(access, reason) if argument.is_buffer else UNUSED
            for argument, access in zip(arguments, effects.accesses, strict=True)
        )


def _compute_in_place(
    call: LaunchConfiguration,
    effects: ArgumentEffects,
    numbers: Sequence[int | None],
    arguments: Sequence[Argument],
    module: TtirModule,
) -> tuple[InPlace, ...]:
    try:
        found = compute_in_place(module, call.function, arguments=arguments, accesses=effects.accesses, grid=call.grid)
    except _MALFORMED_IR_ERRORS:
        return ()
    return tuple(
        InPlace(
            reader=reader,
            writer=writer,
            neighbours=meeting.neighbours,
            is_update=meeting.is_update,
            line=meeting.line,
        )
        for (first, second), meeting in found.items()
        if (reader := numbers[first]) is not None and (writer := numbers[second]) is not None
    )
