"""Worker side: records how each Triton kernel is launched, while its call is lowered.

1. jax-triton's lowering rule for CUDA is wrapped. Its arguments and the custom call that it makes are compared: so a
   payload in the HLO leads back to the kernel and its arguments.
2. The rule's own choices, configurations and the values of heuristics, are read from its calls of the function that
   compiles a kernel: one for each configuration.
3. The meaning of the kernel's parameters: before jax-triton 0.4 the operands and scalars as they are given, then a
   pointer for each output. Since then the parameters that are not given are the outputs, wherever they are in the
   signature, and an output in an operand's bytes (a Ref's, or by `input_output_aliases`) has no parameter of its own.
4. Nothing here may stop a lowering: a call that is not understood gives a launch with `trouble`.
"""

import enum
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from jax.interpreters import mlir
from jaxlib.mlir import ir

from ligerdiag.artifacts.call_records import Constant, KernelLaunch, Scalar, compute_source_sha256
from ligerdiag.compile.lowering.call_forms import get_lowering_rule
from ligerdiag.compile.lowering.kernel_calls import compute_kernel_name
from ligerdiag.errors import describe_fault

_CUDA = "cuda"
_CUSTOM_CALL = "stablehlo.custom_call"
_KNOWN = frozenset({
    "fn", "scalar_args", "name", "custom_call_target_name", "out_shapes", "grid", "num_warps", "num_stages",
    "num_ctas", "compute_capability", "enable_fp_fusion", "input_output_aliases", "zeroed_outputs", "debug",
    "serialized_metadata",
})  # fmt: skip
"""Parameters of the primitive in jax-triton before 0.4; all others are constexprs of the kernel."""
_KNOWN_SINCE_0_4 = frozenset({
    "fn", "name", "in_tree", "out_shapes", "grid", "compute_capability", "backend_options", "input_output_aliases",
    "zeroed_outputs", "serialized_metadata", "metaparams", "has_side_effect", "cost_estimate",
})  # fmt: skip


class _Trouble(Exception):
    """The reason why a launch cannot be run again; one line."""


@dataclass(slots=True, kw_only=True)
class LaunchRecorder:
    """The launches of one lowering, each payload once."""

    found: dict[str, KernelLaunch] = field(default_factory=dict[str, KernelLaunch])

    def add(self, launch: KernelLaunch) -> None:
        """Keeps it. Two kernels with one payload cannot be told apart; aliases are no part of a payload."""
        other = self.found.setdefault(launch.payload, launch)
        if other == replace(launch, aliases=other.aliases):
            common = dict(launch.aliases.items() & other.aliases.items())
            self.found[launch.payload] = replace(launch, aliases=common)
        else:
            text = f"`{other.module}.{other.qualname}` and `{launch.module}.{launch.qualname}` have one payload"
            self.found[launch.payload] = _make_troubled(launch.payload, launch.kernel, text)

    def sorted(self) -> tuple[KernelLaunch, ...]:
        """By payload."""
        return tuple(self.found[payload] for payload in sorted(self.found))


@contextmanager
def record_launches(library: Any) -> Generator[LaunchRecorder]:
    """Writes down every launch that is lowered inside the context; `library` is `jax_triton.triton_lib`."""
    launches = LaunchRecorder()
    lowerings: Any = mlir
    primitive = getattr(library, "triton_kernel_call_p", None)
    entry = getattr(lowerings, "_platform_specific_lowerings", {}).get(_CUDA, {}).get(primitive)
    if entry is None:
        yield launches
        return
    rule = get_lowering_rule(entry)

    def record(ctx: Any, *operands: Any, **params: Any) -> Any:
        with _watch_configurations(library) as configurations:
            results = rule(ctx, *operands, **params)
        launches.add(_describe_launch(library, ctx, params, results, configurations))
        return results

    lowerings.register_lowering(primitive, record, platform=_CUDA)
    try:
        yield launches
    finally:
        lowerings.register_lowering(primitive, rule, platform=_CUDA)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Configuration:
    """A kernel as it was compiled for one configuration."""

    kernel: Any
    """The `JITFunction` or the object that takes its role."""
    constants: Mapping[str, Any]


@contextmanager
def _watch_configurations(library: Any) -> Generator[list[_Configuration]]:
    """Each configuration that the rule compiles; empty where the library has no such step."""
    seen: list[_Configuration] = []
    newer = getattr(library, "TritonFunction", None)
    holder, name = (library, "get_or_create_triton_kernel") if newer is None else (newer, "get_or_create_kernel")
    original = getattr(holder, name, None)
    if original is None:
        yield seen
        return

    def watched(*args: Any, **keywords: Any) -> Any:
        constants = dict(keywords.get("metaparams", {}))
        if newer is not None and args:
            seen.append(_Configuration(kernel=args[0].fn, constants=constants))
        elif len(args) > 2:
            seen.append(_Configuration(kernel=args[2], constants=constants))
        return original(*args, **keywords)

    setattr(holder, name, watched)
    try:
        yield seen
    finally:
        setattr(holder, name, original)


def _describe_launch(
    library: Any, ctx: Any, params: Mapping[str, Any], results: Any, configurations: Sequence[_Configuration]
) -> KernelLaunch:
    payload, kernel = "", compute_kernel_name(params)
    try:
        payload = _hash_config(_find_custom_call(results))
        return _read_launch(payload, library, ctx, params, configurations)
    except _Trouble as trouble:
        return _make_troubled(payload, kernel, str(trouble))
    except Exception as fault:
        return _make_troubled(payload, kernel, f"its launch is not understood: {describe_fault(fault)}")


def _make_troubled(payload: str, kernel: str, trouble: str) -> KernelLaunch:
    return KernelLaunch(
        payload=payload, kernel=kernel, module="", file="", qualname="", source="", grid=(0, 0, 0), operands=0,
        outputs=0, scalars=(), pointers=(), constants={}, zeroed=(), aliases={}, trouble=trouble,
    )  # fmt: skip


def _find_custom_call(results: Any) -> Any:
    """Returns the operation that gives the results; the newest custom call of the block where there are none."""
    for result in results:
        owner: Any = getattr(result, "owner", None)
        operation = getattr(owner, "operation", owner)
        if getattr(operation, "name", "") == _CUSTOM_CALL:
            return operation
    newest: Any = None
    for view in ir.InsertionPoint.current.block.operations:
        if view.operation.name == _CUSTOM_CALL:
            newest = view.operation
    if newest is None:
        raise _Trouble("jax-triton made no custom call of it")
    return newest


def _hash_config(operation: Any) -> str:
    """XLA keeps a string as it is, and a dictionary as it is printed."""
    attributes = operation.attributes
    attribute = attributes["mhlo.backend_config" if "mhlo.backend_config" in attributes else "backend_config"]
    config = attribute.value_bytes if isinstance(attribute, ir.StringAttr) else str(attribute).encode()
    return sha256(config).hexdigest()


def _read_launch(
    payload: str, library: Any, ctx: Any, params: Mapping[str, Any], configurations: Sequence[_Configuration]
) -> KernelLaunch:
    if not configurations or not any(known <= params.keys() for known in (_KNOWN, _KNOWN_SINCE_0_4)):
        raise _Trouble("it was lowered by a generation of jax-triton that is not known")
    if len(configurations) > 1:
        raise _Trouble(f"the kernel is autotuned: {len(configurations)} configurations")
    configuration = configurations[0]
    function = _find_function(configuration.kernel)
    constants = configuration.constants
    zeroed: Any = params["zeroed_outputs"]
    if callable(zeroed):
        zeroed = zeroed(dict(constants))
    x, y, z = library.normalize_grid(params["grid"], dict(constants))
    read = _read_parameters if "in_tree" in params else _read_older_parameters
    parameters = read(library, configuration.kernel, ctx, params)
    return KernelLaunch(
        payload=payload,
        kernel=compute_kernel_name(params),
        module=function.__module__,
        file=function.__code__.co_filename,
        qualname=function.__qualname__,
        source=compute_source_sha256(function),
        grid=(int(x), int(y), int(z)),
        operands=len(ctx.avals_in),
        outputs=len(ctx.avals_out),
        scalars=parameters.scalars,
        pointers=parameters.pointers,
        constants={
            name: _read_constant(name, value)
            for name, value in sorted({**dict.fromkeys(parameters.empty), **constants}.items())
        },
        zeroed=tuple(sorted(zeroed)),
        aliases=parameters.aliases,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameters:
    """The meaning of a kernel's parameters; see 3 above and `KernelLaunch`."""

    scalars: tuple[Scalar, ...]
    pointers: tuple[int | None, ...]
    aliases: Mapping[int, int]
    empty: tuple[str, ...] = ()
    """Names of those that get None."""


def _read_older_parameters(library: Any, kernel: Any, ctx: Any, params: Mapping[str, Any]) -> _Parameters:
    del library, kernel
    scalars = tuple(
        Scalar(position=int(position), type=str(kind), value=_read_number(value))
        for position, kind, value in params["scalar_args"]
    )
    taken = {scalar.position for scalar in scalars}
    count = len(taken) + len(ctx.avals_in) + len(ctx.avals_out)
    return _Parameters(
        scalars=scalars,
        pointers=tuple(position for position in range(count) if position not in taken),
        aliases={int(operand): int(output) for operand, output in params["input_output_aliases"]},
    )


def _read_parameters(library: Any, kernel: Any, ctx: Any, params: Mapping[str, Any]) -> _Parameters:
    given = params["in_tree"].unflatten(range(len(ctx.avals_in)))
    names = library.TritonFunction(kernel).non_constexpr_param_names
    positions = [kernel.arg_names.index(name) for name in names]
    pointers: list[int | None] = [None] * (len(ctx.avals_in) + len(ctx.avals_out))
    scalars: list[Scalar] = []
    empty: list[str] = []
    operands: list[int | None] = []  # numbers of the arrays; jax-triton counts scalars as operands, too
    for name, position, leaf in zip(names, positions, given, strict=True):
        match leaf:
            case library._OutputPlaceholder():
                pointers[len(ctx.avals_in) + leaf.ordinal] = position
            case library._StaticArg():
                operands.append(None)
                kind = str(library.get_type_id(leaf.value))
                scalars.append(Scalar(position=position, type=kind, value=_read_number(leaf.value)))
            case None:
                empty.append(name)
            case int():
                operands.append(leaf)
                pointers[leaf] = position
            case _:
                raise _Trouble(f"its parameter `{name}` is a {type(leaf).__name__}")
    aliases: dict[int, int] = {}
    for number, output in params["input_output_aliases"].items():
        operand: int | None = operands[int(number)]
        if operand is not None:
            aliases[operand] = int(output)
    return _Parameters(scalars=tuple(scalars), pointers=tuple(pointers), aliases=aliases, empty=tuple(empty))


def _find_function(compiled: Any) -> Any:
    """Returns the Python function of a compiled kernel, if it is to be found again under its own name."""
    function = compiled.fn
    if "<locals>" in function.__qualname__:
        raise _Trouble(f"the kernel is defined inside a function: `{function.__qualname__}`")
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    while found is not None and found is not function:
        found = getattr(found, "fn", None)
    if found is None:
        raise _Trouble(f"`{function.__module__}` has no such kernel under the name `{function.__qualname__}`")
    return function


def _read_number(value: Any) -> bool | int | float:
    """JAX hands on numbers of types of its own."""
    if isinstance(value, bool):
        return bool(value)
    return int(value) if isinstance(value, int) else float(value)


def _read_constant(name: str, value: Any) -> Constant:
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        value = value.value
    if value is None:
        return None
    if isinstance(value, bool | int | float | str) and not isinstance(value, enum.Enum):
        return str(value) if isinstance(value, str) else _read_number(value)
    if type(value).__module__.startswith("triton.language") and type(value).__name__ == "dtype":
        return {"dtype": str(value.name)}
    raise _Trouble(f"its constexpr `{name}` is a {type(value).__name__}")
