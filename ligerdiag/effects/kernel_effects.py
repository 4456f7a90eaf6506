"""From what a kernel does to its arguments to what its custom call does to its buffers.

The launcher (jaxlib/gpu/triton_kernels.cc, KernelCall::Launch) gives each parameter that is an array or a tensor
descriptor the next buffer of the call, operands first, then outputs, whatever the parameters are called. Buffers that
are left over get no pointer: with jax-triton since 0.4 those are the outputs that stand for a Ref, last in the list.
(Its deprecated `input_output_aliases` can alias an output that is not last: the kernel's pointers then really are shifted
by one.) With jax-triton before 0.4 an aliased output has a pointer of its own after the inputs'.
Constants, None and values equal to 1 are gone from the parameters and from the function's arguments alike.
An autotuning launcher runs all configurations on the real buffers before it picks one, so the effects are of all.
"""

from collections.abc import Sequence

from ligerdiag.effects.access import Access, CallEffects, create_unknown_effects, join_all
from ligerdiag.effects.pointer_flow import ArgumentEffects, compute_argument_effects
from ligerdiag.effects.triton_payload import KernelCall
from ligerdiag.effects.ttir_module import TtirModule, parse_ttir
from ligerdiag.errors import ArtifactError


def compute_kernel_effects(calls: Sequence[KernelCall], *, operands: int, outputs: int) -> CallEffects:
    """Effects of a custom call that launches one of `calls` on its buffers; UNKNOWN where in doubt."""
    modules: dict[bytes, TtirModule | str] = {}
    per_call = [_compute_configuration(call, operands, outputs, modules) for call in calls]
    return CallEffects(
        kernel=calls[0].function,
        operands=tuple(join_all(effects.operands[index] for effects in per_call) for index in range(operands)),
        outputs=tuple(join_all(effects.outputs[index] for effects in per_call) for index in range(outputs)),
        reasons=tuple(dict.fromkeys(reason for effects in per_call for reason in effects.reasons)),
        configurations=len(calls),
        grid=calls[0].grid,
    )


def _compute_configuration(
    call: KernelCall, operands: int, outputs: int, modules: dict[bytes, TtirModule | str]
) -> CallEffects:
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
    buffers = _assign_buffers(call, effects, operands + outputs)
    if isinstance(buffers, str):
        return _create_unknown(call, operands, outputs, buffers)
    return CallEffects(
        kernel=call.function,
        operands=tuple(buffers[:operands]),
        outputs=tuple(buffers[operands:]),
        reasons=effects.reasons if Access.UNKNOWN in buffers else (),
        grid=call.grid,
    )


def _create_unknown(call: KernelCall, operands: int, outputs: int, reason: str) -> CallEffects:
    return create_unknown_effects(kernel=call.function, operands=operands, outputs=outputs, reason=reason)


def _assign_buffers(call: KernelCall, effects: ArgumentEffects, total: int) -> list[Access] | str:
    """The access to each of the call's buffers, or why the kernel's arguments do not fit them."""
    arguments = len(effects.accesses)
    if call.parameters is None:
        if arguments != total or not all(effects.is_pointer):
            return f"`{call.function}` takes {arguments} arguments where the call has {total} buffers"
        return list(effects.accesses)
    if arguments != len(call.parameters):
        return f"`{call.function}` takes {arguments} arguments where the call passes {len(call.parameters)} parameters"
    taken: list[Access] = []
    for parameter, access, is_pointer in zip(call.parameters, effects.accesses, effects.is_pointer, strict=True):
        if parameter.is_buffer != is_pointer:
            return f"the parameters of the call do not match the arguments of `{call.function}`"
        if parameter.is_buffer:
            taken.append(access.join(Access.WRITE) if parameter.bytes_to_zero else access)
    if len(taken) > total:
        return f"`{call.function}` takes {len(taken)} buffers where the call has {total}"
    return taken + [Access.NONE] * (total - len(taken))
