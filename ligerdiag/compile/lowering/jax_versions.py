"""Worker side: forms of a kernel call: in each generation of JAX and jax-triton, lowered by itself, and replaced by a
function with a rule of its own.

Worker side: differences between the JAX versions that compile here, each in one function.

Where MLIR's own Python bindings differ, see `locations`; jax-triton's differences are handled where it is called.

Worker side: says what a `triton_call` needs that is written for another generation of jax-triton.

Before 0.4 each output is a pointer parameter of the kernel, an aliased one too, and operands are arrays. Since 0.4 an
aliased output has no parameter of its own, and a Ref says that the kernel overwrites it.

Worker side: what a kernel call is to XLA, also where it is in no module: then it is lowered by itself.

So the effects of a missing call can be read like those of any other.

Worker side: finds the functions that were replaced by their own differentiation rule.

In the body of a scan, a map or a remat JAX traces the function under a `custom_vjp` or `custom_jvp` before it knows
whether the body is differentiated. If it is, the rule (`fwd`, `jvp`) replaces the function, and the function's calls
are in no program. Such a kernel call was not dropped: it was never meant to run.
"""

import base64
import functools
import importlib
import re
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import metadata
from types import FrameType
from typing import Any

import jax
from jax.sharding import Mesh
from jaxlib.mlir import ir

from ligerdiag.artifacts.artifact import LoneCall
from ligerdiag.compile.lowering.tags import walk_operations


def enter_mesh(mesh: Mesh) -> AbstractContextManager[Any]:
    """Makes it the mesh of what is traced: `jax.set_mesh` since 0.7, `jax.sharding.use_mesh` since 0.5, else `with mesh`."""
    library: Any = jax
    enter = getattr(library, "set_mesh", None) or getattr(library.sharding, "use_mesh", None)
    return mesh if enter is None else enter(mesh)


def get_type(value: Any) -> Any:
    """Returns the abstract value of an array or tracer: `jax.typeof` since 0.6, `jax.core.get_aval` before."""
    library: Any = jax
    return (getattr(library, "typeof", None) or library.core.get_aval)(value)


def translate_to_hlo(text: str) -> bytes:
    """Serialized HloModuleProto of a StableHLO module; raises what jaxlib's translation raises."""
    library: Any = _import_first("jaxlib._jax", "jaxlib.xla_extension")  # the latter up to jaxlib 0.6
    return library.mlir.mlir_module_to_xla_computation(text, False, False).as_serialized_hlo_module_proto()


def _import_first(*names: str) -> Any:
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


_EVERY = "`ligerdiag.in_place.call_in_place` is right with every version"
_OLDER = f"(jax-triton before 0.4 takes `out_shape`, and no Ref; {{version}} is installed: {_EVERY})"
_NEWER = (
    "(since jax-triton 0.4 an aliased output is no parameter of the kernel; {version} is installed:"
    f" {_EVERY}; drop `input_output_aliases`, and name the operand in `written`)"
)
_UNFIT = "(jax-triton {version} does not fit JAX {jax}: `pip install 'ligerdiag[jax-triton]'` gets what does)"
_REFUSALS = (
    "missing 1 required keyword-only argument: 'out_shape'",
    "rule implemented for primitive: triton_kernel_call",
)


def explain_generation(fault: BaseException) -> str:
    """Returns one clause in parentheses; empty for a fault that has another reason."""
    message = str(fault)
    if isinstance(fault, TypeError | NotImplementedError) and any(refusal in message for refusal in _REFUSALS):
        return _OLDER.format(version=_read_version())
    if isinstance(fault, TypeError) and re.search(r"_triton_kernel_call_\w+rule\(\) takes", message):
        return _UNFIT.format(version=_read_version(), jax=jax.__version__)
    if isinstance(fault, ValueError) and "kernel parameters are missing an argument" in message:
        aliased = any(frame.f_locals.get("input_output_aliases") for frame in _iterate_calls(fault))
        return _NEWER.format(version=_read_version()) if aliased else ""
    return ""


def _iterate_calls(fault: BaseException) -> Iterator[FrameType]:
    """Yields the frames of `triton_call` on the way to the fault."""
    trace = fault.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "triton_call":
            yield trace.tb_frame
        trace = trace.tb_next


def _read_version() -> str:
    try:
        return metadata.version("jax-triton")
    except metadata.PackageNotFoundError:
        return "another one"


_OPERAND = re.compile(r"operand_index = (\d+)")


def lower_alone(primitive: Any, params: Mapping[str, Any], avals: Sequence[Any]) -> LoneCall | None:
    """Lowers a call of the primitive on operands of these types; None, and a traceback in the log, where that fails."""
    try:
        library: Any = jax
        module = library.jit(_make_function(primitive, params, avals), keep_unused=True).trace(
            *(_describe(aval) for aval in avals)
        )
        operations = walk_operations(module.lower(lowering_platforms=("cuda",)).compiler_ir("stablehlo").operation)
        (call,) = [operation for operation in operations if operation.name == "stablehlo.custom_call"]
        return read_custom_call(call)
    except Exception as fault:
        traceback.print_exception(fault)
        return None


def _make_function(primitive: Any, params: Mapping[str, Any], avals: Sequence[Any]) -> Any:
    def function(*arrays: Any) -> Any:
        library: Any = jax
        pairs = zip(arrays, avals, strict=True)
        operands = [library.new_ref(array) if is_reference(aval) else array for array, aval in pairs]
        return primitive.bind(*operands, **params)

    return function


def is_reference(aval: Any) -> bool:
    """Returns whether the type is a Ref's: XLA gets what it holds, and one more output for what it holds then."""
    return hasattr(aval, "inner_aval")


def _describe(aval: Any) -> jax.ShapeDtypeStruct:
    inner = getattr(aval, "inner_aval", aval)
    return jax.ShapeDtypeStruct(inner.shape, inner.dtype)


def read_custom_call(operation: Any) -> LoneCall:
    """Returns the custom call as XLA gets it."""
    attributes = operation.attributes
    aliases = str(attributes["output_operand_aliases"]) if "output_operand_aliases" in attributes else ""
    return LoneCall(
        target=ir.StringAttr(attributes["call_target_name"]).value,
        config=base64.b64encode(_read_config(attributes)).decode(),
        declared=tuple(sorted({int(number) for number in _OPERAND.findall(aliases)})),
    )


def _read_config(attributes: Any) -> bytes:
    """XLA keeps a string as it is, and a dictionary as it is printed."""
    name = "mhlo.backend_config" if "mhlo.backend_config" in attributes else "backend_config"
    if name not in attributes:
        return b""
    attribute = attributes[name]
    return attribute.value_bytes if isinstance(attribute, ir.StringAttr) else str(attribute).encode()


_library: Any = jax
_RULES = ((_library.custom_vjp, "fwd"), (_library.custom_jvp, "jvp"))
"""Class, and the attribute that holds the rule which replaces the function."""


@dataclass(slots=True, eq=False)
class RuleCall:
    """One call of a function that has a rule of its own."""

    replaced: bool = False
    """Its rule was traced."""


_inside: ContextVar[tuple[RuleCall, ...]] = ContextVar("inside", default=())


def find_rule_calls() -> tuple[RuleCall, ...]:
    """The calls whose own function, not its rule, is being traced; outermost first."""
    return _inside.get()


@contextmanager
def watch_rules() -> Generator[None]:
    """Notes inside the context which function is traced, and which rule."""
    with ExitStack() as stack:
        for kind, rule in _RULES:
            stack.enter_context(_watched(kind, rule))
        yield


@contextmanager
def _watched(kind: Any, rule: str) -> Generator[None]:
    original = kind.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if getattr(self, rule, None) is None:
            return original(self, *args, **keywords)  # it says itself what it lacks
        made = RuleCall()
        twin: Any = object.__new__(kind)
        twin.__dict__.update(self.__dict__)
        twin.fun = _mark_function(self.fun, made)
        setattr(twin, rule, _mark_rule(getattr(self, rule), made))
        return original(twin, *args, **keywords)

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = original


def _mark_function(function: Any, made: RuleCall) -> Any:
    @functools.wraps(function)
    def marked(*args: Any, **keywords: Any) -> Any:
        token = _inside.set((*_inside.get(), made))
        try:
            return function(*args, **keywords)
        finally:
            _inside.reset(token)

    return marked


def _mark_rule(rule: Any, made: RuleCall) -> Any:
    @functools.wraps(rule)
    def marked(*args: Any, **keywords: Any) -> Any:
        made.replaced = True
        return rule(*args, **keywords)

    return marked
