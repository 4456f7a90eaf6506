"""Records every bind of a kernel primitive while JAX traces, with the user's lines, and whether JAX keeps the order of
operations around it. A *bind* is one call of a JAX primitive by the program, at the moment when it happens.

In the body of a scan, a map or a remat, JAX traces the function under a `custom_vjp` or `custom_jvp` before it knows
whether the body is differentiated. If it is, the rule (`fwd`, `jvp`) replaces the function, and the function's calls
are in no program. A kernel call in such a function was not dropped: it was never meant to run. `watch_rules` finds
these calls.
"""

import functools
import importlib
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count, islice
from types import FrameType
from typing import Any

import jax
from jax.extend import source_info_util

from ligerdiag.artifacts.artifact import ANY_OPERAND, LoneCall
from ligerdiag.compile.lowering.jax_versions import get_type, is_reference
from ligerdiag.compile.lowering.tags import read_call_name
from ligerdiag.errors import is_project_file
from ligerdiag.model.findings import SourceLine, SourceSpan

_LIBRARIES = ("jax_triton", "jax._src.pallas", "cuda.tile", "cutlass")
"""Packages through which a user's code calls a kernel."""


type Lines = tuple[tuple[str, int], ...]
"""(file, line) of the frames in the user's own code, innermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """A kernel call that the program makes, whether or not XLA gets it."""

    kernel: str
    primitive: str
    operands: int
    outputs: int
    lines: Lines
    function: str
    """Name of the Python function that contains the first of the `lines`."""
    whole_stack: bool = False
    """Whether `lines` come from Python's stack, because JAX's traceback has no frame in the user's code. They then also
    contain the callers of the traced function.
    """
    site: SourceLine | None = None
    """The innermost line of the user's code that makes the call, from Python's stack. The `lines`, from JAX, are those
    of the forward pass, even for a call by the backward function of a `custom_vjp`. None if one of JAX's own rules
    makes the call.
    """
    name_stack: str
    traced: bool
    outputs_used: bool
    operand_used_later: bool
    alone: LoneCall | None = None
    """The custom call that XLA would have got for a call that was dropped; None if the call was not dropped, or if the
    custom call could not be made.
    """
    repeated: tuple[tuple[int, ...], ...] = ()
    """For each `Ref` that is passed more than once, the numbers of the operands that are this `Ref`."""
    name: str = ""
    """The name that ligerdiag gives the call during tracing, see `call_names`; may be empty."""

    def is_same(self, other: "TracedCall") -> bool:
        """Returns whether both are the same call in the user's code. Both must have the same name. If one of them has
        no name, both must have the same kernel and lines.
        """
        if self.name and other.name:
            return self.name == other.name
        return (self.kernel, self.lines) == (other.kernel, other.lines)


_library: Any = jax


_RULES = ((_library.custom_vjp, "fwd"), (_library.custom_jvp, "jvp"))
"""(class of the decorator, name of its attribute with the rule that replaces the function when JAX differentiates)."""


@dataclass(slots=True, eq=False)
class RuleCall:
    """A call of a function that has a differentiation rule of its own, from `custom_vjp` or `custom_jvp`."""

    replaced: bool = False
    """Whether JAX traced the rule, which then replaces the function."""


_inside: ContextVar[tuple[RuleCall, ...]] = ContextVar("inside", default=())


def find_rule_calls() -> tuple[RuleCall, ...]:
    """Returns the calls of `custom_vjp` and `custom_jvp` functions that JAX is tracing now, outermost first. A call is
    left out if JAX traces its differentiation rule instead of the function.
    """
    return _inside.get()


@contextmanager
def watch_rules() -> Generator[None]:
    """Records, for each call of a `custom_vjp` or `custom_jvp` inside the context, whether JAX traces its function or
    its rule.
    """
    with ExitStack() as stack:
        for kind, rule in _RULES:
            stack.enter_context(_watched_rule(kind, rule))
        yield


@contextmanager
def _watched_rule(kind: Any, rule: str) -> Generator[None]:
    original = kind.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if getattr(self, rule, None) is None:
            return original(self, *args, **keywords)  # its own error says that the rule is missing
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bind:
    """A kernel call at the moment when the program made it, whether or not XLA gets it."""

    call: TracedCall
    primitive: Any
    params: Mapping[str, Any]
    avals: tuple[Any, ...]
    """Types of the call's operands: JAX's abstract values."""
    rule_calls: tuple[RuleCall, ...]
    """The calls of `custom_vjp` and `custom_jvp` functions in which the kernel call happened, outermost first."""
    for_shapes: bool
    """Whether the kernel call was traced by `jax.eval_shape`, which only asks for shapes."""

    @property
    def is_replaced(self) -> bool:
        """Returns whether JAX uses a differentiation rule instead of the function that contains the kernel call."""
        return any(call.replaced for call in self.rule_calls)


@contextmanager
def record_binds(primitives: Sequence[Any]) -> Generator[list[Bind]]:
    """Records every call of one of these kernel primitives that is traced inside the context. Yields the list of the
    records, which grows meanwhile.
    """
    binds: list[Bind] = []

    def wrap(primitive: Any, bind: Any) -> Any:
        def recorded(*args: Any, **params: Any) -> Any:
            results = bind(*args, **params)
            source_info: Any = source_info_util.current()
            lines, function = read_traceback(source_info.traceback)
            whole_stack = not lines  # Pallas binds in a function of its own, where JAX's traceback starts again
            if whole_stack:
                lines, function = _read_stack()
            types = tuple(get_type(arg) for arg in args)
            call = TracedCall(
                kernel=compute_kernel_name(params),
                primitive=primitive.name,
                operands=len(args),
                outputs=(len(results) if primitive.multiple_results else 1) + sum(map(is_reference, types)),
                lines=lines,
                function=function,
                whole_stack=whole_stack,
                site=_find_site(),
                name_stack="",
                traced=False,
                outputs_used=False,
                operand_used_later=True,
                name=read_call_name(source_info.name_stack),
            )
            binds.append(
                Bind(
                    call=call,
                    primitive=primitive,
                    params=params,
                    avals=types,
                    rule_calls=find_rule_calls(),
                    for_shapes=_is_for_shapes(),
                )
            )
            return results

        return recorded

    for primitive in primitives:
        primitive.bind = wrap(primitive, primitive.bind)
    try:
        with watch_rules():
            yield binds
    finally:
        for primitive in primitives:
            del primitive.bind


def compute_kernel_name(params: Mapping[str, Any]) -> str:
    """Returns the name of a kernel's Python function. The kernel is one of Triton, Pallas or cuTile, or a function of
    CuTe DSL that launches kernels.
    """
    target = params.get("target_name")
    if isinstance(target, str):
        return target
    kernel = params.get("fn") or _find_library_function(params)
    while kernel is not None:
        name = getattr(kernel, "__name__", None)
        if isinstance(name, str):
            return name
        kernel = getattr(kernel, "fn", None)
    debug_info = getattr(params.get("jaxpr"), "debug_info", None)
    older = params.get("name_and_src_info")
    return str(
        getattr(debug_info, "func_name", None) or getattr(older, "name", None) or params.get("name") or "unknown"
    )


def _find_library_function(params: Mapping[str, Any]) -> Any:
    """Returns the function in the parameters of cuTile's or CuTe DSL's primitive; None if they are another one's."""
    tile = getattr(params.get("kernel"), "_annotated_function", None)
    return getattr(tile, "pyfunc", None) or getattr(params.get("lowering_target"), "fn", None)


def read_traceback(traceback: Any) -> tuple[Lines, str]:
    """Returns the lines of the user's code in JAX's traceback, innermost first. Also returns the name of the function
    with the innermost line. Both are empty if the traceback has no line of the user's code.
    """
    frames = [] if traceback is None else [f for f in traceback.frames if is_project_file(f.file_name)]
    return tuple((f.file_name, f.line_num) for f in frames), frames[0].function_name if frames else ""


def _is_for_shapes() -> bool:
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "eval_shape" and not is_project_file(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


def _read_stack() -> tuple[Lines, str]:
    lines: list[tuple[str, int]] = []
    function = ""
    frame = inspect.currentframe()
    while frame is not None:
        if is_project_file(frame.f_code.co_filename):
            function = function or frame.f_code.co_name
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines), function


def _find_site() -> SourceLine | None:
    """Returns the innermost line of the user's code on the stack, if the frames inside it include one of a library of
    kernels; None otherwise, because then a rule of JAX's own calls the primitive.
    """
    frame = inspect.currentframe()
    through_library = False
    while frame is not None:
        code = frame.f_code
        if is_project_file(code.co_filename):
            return _locate(frame) if through_library else None
        module = str(frame.f_globals.get("__name__", ""))
        through_library = through_library or module.startswith(_LIBRARIES)
        frame = frame.f_back
    return None


def _locate(frame: FrameType) -> SourceLine:
    """Returns the line that the frame executes, with the expression if Python keeps its position."""
    code = frame.f_code
    line, end_line, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    span = None
    if line == frame.f_lineno and end_line is not None and column is not None and end_column is not None:
        span = SourceSpan(column=column, end_line=end_line, end_column=end_column)
    return SourceLine(file=code.co_filename, line=frame.f_lineno, function=code.co_qualname, span=span)


@dataclass(slots=True)
class TracedOrder:
    """Notes on the operations around kernel calls whose order JAX changed in one trace."""

    crossed: set[int] = field(default_factory=set[int])
    """Operand numbers of kernel calls. A number is in the set if another operation reads the same operand, and JAX moved
    that operation to the other side of the kernel call. The set does not record the kernel call, so a number applies to
    every kernel call of the program. For a call of a function that contains kernel calls, `ANY_OPERAND` replaces the number.
    """


@contextmanager
def watch_order(primitives: Sequence[Any]) -> Generator[TracedOrder]:
    """Notes whether JAX changes the order of operations around the kernel calls that it traces inside the context.
    Yields the notes, which grow meanwhile.

    JAX before 0.6.2 sorts the operations of a function that it differentiates or splits by their dependences, not by
    the time of tracing. To JAX the order means nothing, but it decides whether an operation reads the operand of a
    kernel before or after the kernel overwrites it.
    """
    evaluation: Any = importlib.import_module("jax._src.interpreters.partial_eval")
    order, numbers = TracedOrder(), count()
    make, sort = evaluation.new_eqn_recipe, evaluation.toposort
    if next(iter(inspect.signature(make).parameters)) != "in_tracers":  # this JAX numbers them itself
        yield order
        return

    def numbered(*args: Any, **words: Any) -> Any:
        return make(*args, **words)._replace(eqn_id=next(numbers))

    def watched(tracers: Any) -> Any:
        found = sort(tracers)
        recipes = {id(one.recipe): one.recipe for one in found if hasattr(one.recipe, "eqn_id")}
        order.crossed.update(_find_crossed(list(recipes.values()), primitives))
        return found

    evaluation.new_eqn_recipe, evaluation.toposort = numbered, watched
    try:
        yield order
    finally:
        evaluation.new_eqn_recipe, evaluation.toposort = make, sort


def _find_crossed(recipes: Sequence[Any], primitives: Sequence[Any]) -> Iterator[int]:
    """Yields the numbers of the kernel operands that another operation reads too, if that operation was traced before
    the kernel call and now comes after it, or the reverse.

    recipes: the operations in JAX's new order. An operation without a number (`eqn_id`) may have been traced at any
    time.
    """
    for place, kernel in enumerate(recipes):
        if not _calls(kernel.primitive, kernel.params, primitives):
            continue
        operands = [_identify(one) for one in kernel.in_tracers]
        for other_place, other in enumerate(recipes):
            ids = kernel.eqn_id, other.eqn_id
            if other is kernel or (
                all(isinstance(one, int) for one in ids) and (place < other_place) == (ids[0] < ids[1])
            ):
                continue
            used = {_identify(one) for one in other.in_tracers}
            shared = [number for number, operand in enumerate(operands) if operand in used]
            yield from shared if kernel.primitive in primitives or not shared else (ANY_OPERAND,)


def _identify(tracer: Any) -> int:
    """Returns an id that is the same for all tracers of one value. Each use of a constant has its own tracer, so for a
    constant it is the id of the value itself.
    """
    value = getattr(tracer.recipe, "val", None)
    return id(tracer) if value is None else id(value)


def _calls(primitive: Any, params: Mapping[str, Any], primitives: Sequence[Any]) -> bool:
    """Whether a primitive with these parameters is a kernel call, or calls a function that contains a kernel call."""
    return primitive in primitives or any(
        _calls(equation.primitive, equation.params, primitives)
        for jaxpr in list_jaxprs(params)
        for equation in jaxpr.eqns
    )


def list_jaxprs(params: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the jaxprs that an equation with these parameters calls."""
    core: Any = importlib.import_module("jax._src.core")
    listing: Callable[[Any], Iterator[Any]] = core.jaxprs_in_params
    return iter(listing(params))
