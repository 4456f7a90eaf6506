"""Computes the effects of a `mosaic_gpu_v2` call from its payload; jaxlib's own bindings parse the module.

backend_config is a dictionary; its string `module` is MLIR bytecode of `stable_mosaic_gpu.*`, which the pass
`mosaic_gpu-serde` turns into the dialects to which JAX lowers. Buffers are the call's operands, then its outputs
(jax/experimental/mosaic/gpu/core.py); a Ref's output is last and its pointer is not used.
"""

import importlib
import re
from hashlib import sha256
from typing import Any

from ligerdiag.effects.access import Access, CallEffects, OperandUse, compute_plain_use, create_unknown_effects
from ligerdiag.effects.mosaic.mosaic_flow import ARGUMENT, follow_function
from ligerdiag.effects.mosaic.mosaic_places import PlaceFacts
from ligerdiag.effects.payload import parse_string_attributes
from ligerdiag.errors import ArtifactError

_SUFFIX = "_mosaic_gpu"
_STRANGE_IR = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""Errors of bindings and of this code on IR that JAX does not make, in an arbitrary payload."""
_MAY = "a Mosaic GPU kernel: which elements it writes is not followed, so it may write all or a part"
_REMEDY = "say what it writes under [tool.ligerdiag.effects]"
_PEERS = re.compile(rb"uses_xla_collective_metadata\s*=\s*true", re.ASCII)


_UNNAMED = "anonymous"
"""JAX's name for a kernel without a name."""


def tell_apart(name: str, backend_config: bytes) -> str:
    """Returns the kernel's name, or a unique one if it has none: a declaration for one must not hold for all."""
    return f"{name}_{sha256(backend_config).hexdigest()[:8]}" if name == _UNNAMED else name


def compute_mosaic_effects(*, target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    """Returns the effects of the call on its buffers; UNKNOWN, with a reason, where not followed."""
    try:
        attributes = parse_string_attributes(backend_config)
        if "module" not in attributes:
            raise ArtifactError("the backend config has no string attribute `module`")
        name, facts = _follow(attributes["module"], operands + outputs)
        kernel = tell_apart(name, backend_config)
    except ArtifactError as error:
        return create_unknown_effects(kernel=target, operands=operands, outputs=outputs, reason=f"{error}; {_REMEDY}")
    except _STRANGE_IR as error:
        reason = f"the Mosaic GPU module could not be read ({type(error).__name__}); {_REMEDY}"
        return create_unknown_effects(kernel=target, operands=operands, outputs=outputs, reason=reason)
    if _PEERS.search(backend_config) or "xla_replica_ids" in attributes:
        reason = "a Mosaic GPU kernel that reaches memory of other devices, which is not followed"
        return create_unknown_effects(kernel=kernel, operands=operands, outputs=outputs, reason=reason)
    uses = tuple(_describe(access, facts.reasons) for access in facts.accesses)
    return CallEffects(
        kernel=kernel,
        operands=tuple(facts.accesses[:operands]),
        outputs=tuple(facts.accesses[operands:]),
        reasons=tuple(facts.reasons),
        operand_uses=uses[:operands],
        output_uses=uses[operands:],
    )


def _describe(access: Access, reasons: list[str]) -> OperandUse:
    return compute_plain_use(access, "; ".join(reasons) if access is Access.UNKNOWN else _MAY)


def _follow(source: bytes, count: int) -> tuple[str, PlaceFacts]:
    try:
        ir: Any = importlib.import_module("jaxlib.mlir.ir")
        passmanager: Any = importlib.import_module("jaxlib.mlir.passmanager")
        dialect: Any = importlib.import_module("jax._src.lib").mosaic_gpu_dialect
        mlir: Any = importlib.import_module("jax._src.interpreters.mlir")
    except (ImportError, AttributeError) as error:
        raise ArtifactError("the installed JAX has no Mosaic GPU dialect to read the kernel with") from error
    context: Any = mlir.make_ir_context()
    dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    context.load_all_available_dialects()
    with context:
        try:
            module: Any = ir.Module.parse(source)
            passmanager.PassManager.parse("builtin.module(mosaic_gpu-serde{serialize=false})").run(module.operation)
        except (ir.MLIRError, *_STRANGE_IR) as error:
            raise ArtifactError("jaxlib does not parse the Mosaic GPU module") from error
        return _follow_module(module.operation, count)


def _follow_module(module: Any, count: int) -> tuple[str, PlaceFacts]:
    functions = [one.operation for one in module.regions[0].blocks[0].operations if one.operation.name == "func.func"]
    named = {str(one.attributes["sym_name"].value): one for one in functions}
    entries = [name for name, one in named.items() if list(one.regions[0].blocks)]
    if len(entries) != 1 or not entries[0].endswith(_SUFFIX):
        raise ArtifactError("the Mosaic GPU module has not one host function")
    _require_arguments(named[entries[0]])
    facts = follow_function(named[entries[0]], count)
    for name in named:
        if "nvshmem" in name:
            reason = f"the Mosaic GPU kernel uses `{name}`, which reaches memory of other devices"
            facts.accesses = [Access.UNKNOWN] * count
            facts.reasons.append(reason)
    return entries[0].removesuffix(_SUFFIX), facts


def _require_arguments(entry: Any) -> None:
    """Requires a launch: JAX makes no module without one."""
    found = {"arguments": False, "launch": False}

    def walk(operation: Any) -> None:
        found["launch"] |= operation.name == "gpu.launch"
        found["arguments"] |= ARGUMENT in operation.attributes
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    walk(inner.operation)

    walk(entry)
    if not all(found.values()):
        raise ArtifactError("the Mosaic GPU module launches no kernel on the call's buffers")
