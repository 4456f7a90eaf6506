"""Turns a program that `jax.export` has exported into a function, which a worker can trace like any other.

The exported StableHLO is called from the traced function, so its operations get tags, and XLA compiles it for the
target. It is the program as written here: a kernel call that JAX dropped before the export is in no report.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ligerdiag.errors import InputError
from ligerdiag.toolchains.gpu_targets import load_targets
from ligerdiag.toolchains.toolchain import Platform

PLATFORM = Platform.CUDA.value
"""The only platform for which an exported program is checked."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class ExportedProgram:
    """The parts of a `jax.export.Exported` that a worker needs. A call of this object calls the exported program."""

    name: str
    module: bytes
    """The StableHLO, as `jax.export` serializes it."""
    kept: tuple[int, ...]
    """Numbers of the arguments that the module takes."""
    version: int
    """Version of JAX's calling convention."""
    results: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each result."""
    structure: Any
    """The pytree of the results."""

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        import jax

        library: Any = jax
        exporting: Any = library.export

        def like(*_: Any, **__: Any) -> Any:
            return library.tree.unflatten(
                self.structure, [library.numpy.zeros(shape, dtype) for shape, dtype in self.results]
            )

        types = library.tree.map(_describe_type, (args, keywords))
        jitted = library.jit(like, keep_unused=True)
        frame: Any = exporting.export(jitted, platforms=[PLATFORM])(*types[0], **types[1])
        exported: Any = replace(
            frame,
            fun_name=self.name,
            mlir_module_serialized=self.module,
            module_kept_var_idx=self.kept,
            calling_convention_version=self.version,
        )
        return exported.call(*args, **keywords)


def is_exported(value: Any) -> bool:
    """Returns whether a value is a `jax.export.Exported`. JAX is not imported for that."""
    return name_class(value) == "Exported"


def refuse_other_gpu(targets: Sequence[str], kind: str, origin: str) -> None:
    """Raises InputError if one of the targets is not an NVIDIA GPU. `kind` and `origin` are parts of the message.

    kind: the kind of program, such as "an exported program". origin: the end of the advice "check the function ...",
    such as "that `step` was exported from".
    """
    other = _find_other_gpu(targets)
    if other:
        raise InputError(f"{kind} is checked for NVIDIA GPUs only: for target `{other}`, check the function {origin}")


def _find_other_gpu(targets: Sequence[str]) -> str:
    """Returns the name of the first target that is not an NVIDIA GPU; empty if all are."""
    gpus = load_targets(targets)
    return next((gpu.name for gpu in gpus if gpu.platform is not Platform.CUDA), "")


def name_class(value: Any) -> str:
    """Returns the name of a value's class if JAX defines the class. Returns an empty string for any other value."""
    kind = cast("type[Any]", type(value))
    return kind.__name__ if kind.__module__.startswith("jax.") else ""


def _describe_type(array: Any) -> Any:
    import jax

    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def take_exported(
    exported: Any, targets: Sequence[str]
) -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
    """Returns the exported program as a function, the types of its arguments by position, and those by keyword.

    targets: names of the GPUs to check it for. Raises InputError if one of them is not an NVIDIA GPU. Also raises it if
    the program is for another platform or for several devices, or has symbolic shapes or effects.
    """
    import jax

    library: Any = jax
    name = str(exported.fun_name)
    refuse_other_gpu(targets, "an exported program", f"that `{name}` was exported from")
    if PLATFORM not in exported.platforms:
        platforms = ", ".join(f"`{one}`" for one in exported.platforms)
        raise InputError(f'`{name}` is exported for {platforms}: export it with `platforms=["{PLATFORM}"]` as well')
    if len(exported.platforms) > 1:
        raise InputError(f'`{name}` is exported for several platforms: export it with only `platforms=["{PLATFORM}"]`')
    if exported.nr_devices != 1:
        raise InputError(f"`{name}` is exported for {exported.nr_devices} devices: pass the original function instead")
    if exported.ordered_effects or exported.unordered_effects:
        raise InputError(f"`{name}` is exported with effects, such as callbacks: pass the original function instead")
    avals = (*exported.in_avals, *exported.out_avals)
    if not all(isinstance(size, int) for aval in avals for size in aval.shape):
        raise InputError(f"`{name}` is exported with symbolic shapes: export it for the shapes to check")
    specs = [library.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.in_avals]
    args, keywords = library.tree.unflatten(exported.in_tree, specs)
    program = ExportedProgram(
        name=name,
        module=bytes(exported.mlir_module_serialized),
        kept=tuple(exported.module_kept_var_idx),
        version=int(exported.calling_convention_version),
        results=tuple((tuple(aval.shape), str(aval.dtype)) for aval in exported.out_avals),
        structure=exported.out_tree,
    )
    return program, tuple(args), keywords
