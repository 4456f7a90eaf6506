"""Makes the parts of JAX that split functions keep the author's intent: `jax.checkpoint`, loops, and dead-code
elimination.

This module changes how JAX behaves in the second trace of a program, which `intent` explains with the word *snapshot*:
a copy of a value, made where the program says which version the author means.

**Checkpoints.** JAX splits the body of a `jax.checkpoint` into a known part, which it runs, and a staged part, which it
runs in the backward pass. It does so without tracing, so snapshots are inserted into the two jaxprs afterwards.

**Slices of loops.** If a scan's body returns a slice of `xs` unchanged, JAX notices that and returns `xs` itself instead of
the stacked slices. It does the same if a custom_vjp in the body keeps such a slice. But a slice is a copy: a kernel that
overwrites it does not change `xs`, and the author stacks the overwritten slices. So in the second trace, slices with the
shape and dtype of a kernel's operand are stacked. Whole operands of a loop are not copied, and JAX passes them on as before.

**Invariants of loops.** When JAX differentiates a scan, it hoists operations that no iteration changes, as far as JAX
can see, for example on arrays that the body closes over. If a kernel overwrites such an array, the hoisted operation
would run once, before the loop, and see the original only; the author means an operation of each iteration. So in the
second trace, a body that calls kernels is not split. An array that it closes over is kept without a copy: the
operations of the loop read it when they run.

The functions of JAX that are wrapped here are internal. If a version of JAX lacks one, JAX keeps its own behaviour
there: readers of the stacked slices are then taken to mean `xs`.
"""

import importlib
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from ligerdiag.compile.lowering.kernel_calls import PRIMITIVES

_NAME = "ligerdiag_snapshot"

type Form = tuple[tuple[int, ...], str]
"""Shape and dtype of an array. Only a value with the form of a kernel's operand can be overwritten by a kernel."""


def read_form(value: Any) -> Form | None:
    """Returns the shape and dtype of a value. Returns None for a value that cannot be a kernel's operand, such as a
    number, a NumPy array, a symbolic zero, a random key or a Ref.
    """
    if isinstance(value, jex_core.Literal) or not hasattr(value, "aval"):
        return None
    aval = value.aval
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    library: Any = jax
    if shape is None or dtype is None or type(aval).__name__ != "ShapedArray" or dtype == library.dtypes.float0:
        return None
    if library.dtypes.issubdtype(dtype, library.dtypes.extended):
        return None
    return tuple(shape), str(dtype)


def _make_primitive(name: str) -> Any:
    """Returns a new JAX primitive that returns its one array unchanged and is lowered to an optimization barrier."""
    primitive: Any = jex_core.Primitive(name)
    dialect: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    library, rules, batching_rules, lowering_rules = _untyped(jnp), _untyped(ad), _untyped(batching), _untyped(mlir)

    def copy(operand: Any) -> Any:
        return library.array(operand, copy=True)

    def same(operand: Any) -> Any:
        return operand

    def differentiate(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return primitive.bind(primals[0]), tangents[0]

    def transpose(cotangent: Any, _: Any) -> list[Any]:
        return [cotangent]

    def lower(_: Any, operand: Any) -> Any:
        return dialect.OptimizationBarrierOp([operand]).results

    primitive.def_impl(copy)
    primitive.def_abstract_eval(same)
    rules.primitive_jvps[primitive] = differentiate
    rules.primitive_transposes[primitive] = transpose
    batching_rules.defvectorized(primitive)
    lowering_rules.register_lowering(primitive, lower)
    return primitive


def _untyped(module: object) -> Any:
    return module


SNAPSHOT = _make_primitive(_NAME)
STORED = _make_primitive("ligerdiag_stored")
"""The primitive that marks a value before the program stores it into a Ref, see `call_names.find_stores`."""


CUSTOM = "custom_lin"
"""Name of JAX's primitive that calls the backward rule of a custom_vjp."""


class Saver(Protocol):
    """Protocol of the object that makes the snapshots of the current trace. A snapshot is a copy that keeps the version
    of a value that the author means. `intent.IntentTrace` implements it.
    """

    is_whole: bool
    """Whether JAX is processing the body of a loop that must not be split, see `keep_in_loops`."""

    @property
    def is_marked(self) -> bool:
        """Returns whether snapshots are inserted into this trace."""
        ...

    def copies(self, form: Form) -> bool:
        """Records that the trace saves a value of this shape and dtype. Returns whether such values get a snapshot, a copy
        that keeps the present version.
        """
        ...

    def pin(self, trace: Any, body: Any, values: Sequence[Any]) -> AbstractContextManager[None]:
        """Inside the context, saves each input of `body` in the version that it had at the beginning of `body`. A
        version is the contents before or after a kernel's write.

        body: the body of a `jax.checkpoint`, which `trace` splits inside the context. values: the inputs; None for an
        input that JAX does not know.
        """
        ...

    def unpin(self, body: Any, position: int) -> bool:
        """Ends the effect of `pin` on one input of `body`. If the input is saved from now on, it is saved in the
        version that it has at the end of the body. Returns whether the input was pinned and `body` is the innermost
        body that JAX is splitting.

        body: the body of a `jax.checkpoint`. position: position of the input.
        """
        ...


def pin_inputs(rule: Callable[..., Any], marks: Saver) -> Callable[..., Any]:
    """Wraps JAX's rule that splits the body of a `jax.checkpoint`. With the wrapper, JAX saves the inputs of the body
    with their contents from the moment when the body was called.
    """

    def pinned(trace: Any, *tracers: Any, **params: Any) -> Any:
        values = [tracer.pval.get_known() for tracer in tracers]
        with marks.pin(trace, params["jaxpr"], values):
            return rule(trace, *tracers, **params)

    return pinned


def mark_policy(evaluate: Callable[..., Any], marks: Saver) -> Callable[..., Any]:
    """Wraps JAX's function that splits a jaxpr into a known part and a staged part. The known part runs at once, the
    staged part in the backward pass. The wrapper copies each value that a checkpoint's policy saves, and makes the
    staged part repeat the kernel calls.
    """

    def evaluated(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        known, staged, unknown, instantiated, count, *references = evaluate(_drop_effect(jaxpr), *args, **kwargs)
        if not any(references):
            known, staged, count = _save_results(known, staged, count, marks)
        if marks.is_marked:
            staged = _drop_tangent_ties(staged)
            wanted = [is_unknown for is_unknown, there in zip(unknown, instantiated, strict=True) if there]
            staged, done = _restore_dropped(staged, _list_dropped(staged, wanted), jaxpr, marks)
            known, staged = _restore_effect(known, ()), _restore_effect(staged, done)
        return known, staged, unknown, instantiated, count, *references

    return evaluated


def _drop_effect(jaxpr: Any) -> Any:
    if WRITES not in jaxpr.effects:
        return jaxpr
    equations = [one.replace(effects={*one.effects} - {WRITES}) for one in jaxpr.eqns]
    return jaxpr.replace(eqns=equations, effects={*jaxpr.effects} - {WRITES})


def _drop_tangent_ties(jaxpr: Any) -> Any:
    """Returns the jaxpr in which the results of a custom_vjp do not count as used because of JAX's primitive `tie` (not
    one of ligerdiag's ties): JAX 0.4 makes tangents depend on results by its equations, which here depend on the tangents
    only. JAX itself ignores the results when it transposes the tangents.
    """
    ties = "tie"
    if not any(one.primitive.name == ties for one in jaxpr.eqns):
        return jaxpr
    equations = [one.replace(invars=[one.invars[1]] * 2) if one.primitive.name == ties else one for one in jaxpr.eqns]
    return jaxpr.replace(eqns=equations)


def _list_dropped(staged: Any, wanted: Sequence[bool]) -> list[Any]:
    """Returns the kernel calls that JAX's dead-code elimination drops from the staged jaxpr (the part that runs in the
    backward pass) if only the results marked in `wanted` are computed.
    """
    evaluation: Any = importlib.import_module("jax._src.interpreters.partial_eval")
    kept = {id(one) for equation in evaluation.dce_jaxpr(staged, wanted)[0].eqns for one in equation.outvars}
    calls = [one for one in staged.eqns if one.primitive.name in PRIMITIVES]
    return [one for one in calls if not any(id(result) in kept for result in one.outvars)]


def _restore_dropped(staged: Any, dropped: Sequence[Any], body: Any, marks: Saver) -> tuple[Any, list[Any]]:
    """Decides how the backward pass treats the kernel calls `dropped`, which JAX would remove from the staged jaxpr as
    dead.

    Returns the staged jaxpr, changed where a call must run on copies, and the calls that need not run again. An operand
    is done if it is an input of the body that nothing reads before the call and that was pinned (see `Saver.pin`): the
    forward pass has already overwritten it. If all operands are done, or literals, the call need not run again; if only
    some are done, the call runs on copies of these; if none is, the call stays unchanged. Unpins each operand that is
    done.
    """
    done: list[Any] = []
    for equation in dropped:
        untouched = _list_untouched_inputs(equation, body, staged)
        found = {operand: position for operand, position in untouched.items() if marks.unpin(body, position)}
        if not found:
            continue
        if all(isinstance(one, jex_core.Literal) or id(one) in found for one in equation.invars):
            done.append(equation)
        else:
            staged = _call_on_copies(staged, equation, found)
    return staged, done


def _list_untouched_inputs(equation: Any, body: Any, staged: Any) -> dict[int, int]:
    """Returns the operands of the call that are inputs of the body and that nothing reads before the call: the id of
    each operand to its position among the inputs.
    """
    where = next(number for number, one in enumerate(staged.eqns) if one is equation)
    before = {id(operand) for other in staged.eqns[:where] for operand in other.invars}
    inputs = {id(one): number for number, one in enumerate(body.invars)}
    return {id(one): inputs[id(one)] for one in equation.invars if id(one) in inputs and id(one) not in before}


def _call_on_copies(staged: Any, call: Any, copied: Mapping[int, int]) -> Any:
    equations: list[Any] = []
    for equation in staged.eqns:
        if equation is call:
            copies = {id(one): (one, _make_variable(one)) for one in equation.invars if id(one) in copied}
            equations += [_make_equation(old, new, equation) for old, new in copies.values()]
            operands = [copies[id(one)][1] if id(one) in copies else one for one in equation.invars]
            equation = equation.replace(invars=operands)  # noqa: PLW2901
        equations.append(equation)
    return staged.replace(eqns=equations)


def _restore_effect(jaxpr: Any, done: Sequence[Any]) -> Any:
    found = [_calls_kernel(one) and not any(one is other for other in done) for one in jaxpr.eqns]
    if not any(found):
        return jaxpr
    equations = [
        one.replace(effects={*one.effects, WRITES}) if calls else one
        for one, calls in zip(jaxpr.eqns, found, strict=True)
    ]
    return jaxpr.replace(eqns=equations, effects={*jaxpr.effects, WRITES})


def _calls_kernel(equation: Any) -> bool:
    if equation.primitive.name in PRIMITIVES:
        return True
    for value in equation.params.values():
        parts: list[Any] = [*value] if type(value) is tuple else [value]
        if any(WRITES in part.effects for part in parts if isinstance(part, jex_core.Jaxpr | jex_core.ClosedJaxpr)):
            return True
    return False


def _save_results(known: Any, staged: Any, count: int, marks: Saver) -> tuple[Any, Any, int]:
    """Returns both jaxprs and the number of values that `known` (the part that runs at once) saves for `staged` (the
    part that runs later). In the returned jaxprs, a saved value that a kernel could overwrite is replaced by a copy,
    made right after the value is computed.

    A value that only a custom_vjp keeps is passed on without a copy. If JAX's rules save the value too, both the value
    and its copy are results of `known`.
    """
    equations, results = list(known.eqns), list(known.outvars)
    inputs, readers = list(staged.invars), list(staged.eqns)
    first = len(results) - count
    for number in range(count):
        variable = results[first + number]
        form = None if isinstance(variable, jex_core.Literal) else read_form(variable)
        if form is None or _is_kept_only(staged, inputs[number]):
            continue
        if not marks.copies(form):
            continue
        results[first + number] = _put_copy(equations, variable)
        if any(one.primitive.name == CUSTOM and inputs[number] in one.invars for one in readers):
            kept = _make_variable(variable)
            readers = [_replace_kept(one, inputs[number], kept) for one in readers]
            results.append(variable)
            inputs.insert(len(results) - 1 - first, kept)
    staged = staged.replace(eqns=readers, invars=inputs)
    return known.replace(eqns=equations, outvars=results), staged, len(results) - first


def _put_copy(equations: list[Any], variable: Any) -> Any:
    """Inserts a copy of the variable into the list, after the equation that computes the variable; returns the copy's
    variable.
    """
    made = next((number for number, one in enumerate(equations) if variable in one.outvars), -1)
    copy = _make_variable(variable)
    equations.insert(made + 1, _make_equation(variable, copy, equations[made] if made >= 0 else None))
    return copy


def _is_kept_only(jaxpr: Any, variable: Any) -> bool:
    """Whether only custom_vjps read the variable; a custom_vjp keeps the variable itself and no copy."""
    for equation in jaxpr.eqns:
        for position, operand in enumerate(equation.invars):
            if operand is not variable:
                continue
            inner = equation.params.get("jaxpr")
            inner = getattr(inner, "jaxpr", inner)
            if equation.primitive.name == CUSTOM:
                continue
            if inner is None or len(inner.invars) != len(equation.invars):
                return False
            if not _is_kept_only(inner, inner.invars[position]):
                return False
    return variable not in [one for one in jaxpr.outvars if not isinstance(one, jex_core.Literal)]


def _replace_kept(equation: Any, old: Any, new: Any) -> Any:
    if equation.primitive.name != CUSTOM:
        return equation
    return equation.replace(invars=[new if one is old else one for one in equation.invars])


def _make_variable(like: Any) -> Any:
    core: Any = importlib.import_module("jax._src.core")
    try:
        return core.Var(like.aval)
    except TypeError:  # before jax 0.5 a variable has a suffix
        return core.Var("", like.aval)


def _make_equation(operand: Any, result: Any, maker: Any) -> Any:
    core: Any = importlib.import_module("jax._src.core")
    more = () if maker is None else (maker.source_info,)
    return core.new_jaxpr_eqn([operand], [result], SNAPSHOT, {}, set(), *more)


@contextmanager
def keep_calls(primitives: Sequence[Any]) -> Generator[None]:
    """Keeps JAX, inside the context, from dropping calls of these primitives whose results are unused. Marks each such
    call as having an effect.
    """

    def keep(evaluate: Any) -> Any:
        def evaluated(*args: Any, **params: Any) -> Any:
            results, effects = evaluate(*args, **params)
            return results, {*effects, WRITES}

        return evaluated

    with ExitStack() as stack:
        for primitive in primitives:
            stack.enter_context(wrapped(primitive, "abstract_eval", keep))
        yield


def has_kernels(jaxpr: Any) -> bool:
    """Returns whether the jaxpr, which was traced inside `keep_calls`, calls a kernel."""
    return WRITES in jaxpr.effects


def _make_effect() -> Any:
    effects: Any = importlib.import_module("jax._src.effects")
    kind: Any = type("KernelWrites", (effects.Effect,), {})
    for allowed in ("lowerable", "control_flow_allowed", "custom_derivatives_allowed", "remat_allowed"):
        getattr(effects, f"{allowed}_effects").add_type(kind)
    return kind()


WRITES = _make_effect()
"""The JAX effect that a kernel call has inside `keep_calls`."""


@contextmanager
def wrapped(holder: Any, name: str, wrap: Callable[[Any], Any]) -> Generator[None]:
    """Inside the context, replaces the attribute `name` of `holder` by `wrap(attribute)`."""
    original = getattr(holder, name)
    setattr(holder, name, wrap(original))
    try:
        yield
    finally:
        setattr(holder, name, original)


@contextmanager
def watch_splits(marks: Saver) -> Generator[None]:
    """Inside the context, wraps JAX's functions that split a jaxpr (see `mark_policy`). JAX also splits each function
    that the jaxpr calls.
    """
    evaluation = importlib.import_module("jax._src.interpreters.partial_eval")
    custom, stateful = "partial_eval_jaxpr_custom", "partial_eval_jaxpr_stateful"
    names = [name for name in (custom, stateful) if hasattr(evaluation, name)]
    if stateful in getattr(evaluation, custom).__code__.co_names:  # it calls that one, but not in JAX 0.4
        names.remove(custom)
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(wrapped(evaluation, name, lambda function: mark_policy(function, marks)))
        yield


_FORWARDING = "_jaxpr_forwarding"
"""Name of JAX's function that gives, for each result of a jaxpr, the number of the input that is returned as this
result unchanged; None for any other result.
"""


_CARRY_COUNT = "num_carry"
"""Name of the local variable in which JAX's scan has the number of its carried values. The carried values are a body's
first results and are passed on whole; `while_loop`, which takes no slices, has no variable of this name.
"""


_PARTIAL_EVALUATIONS = {"partial_eval_jaxpr_nounits_fwd": "fwd", "linearize_jaxpr": "allow_fwds"}
"""Names of JAX's functions that split the body of a loop, each with the argument that says which inputs JAX may keep in
place of equal values that it would save. If JAX keeps an input that is not a slice, it hoists the input out of the
loop itself.
"""


@contextmanager
def stack_slices(marks: Saver) -> Generator[None]:
    """Inside the context, makes a scan stack the slices of `xs` that its body returns or keeps. Otherwise JAX would
    return `xs` itself.

    Replaces functions only in JAX's module of loops, because only loops slice their inputs.
    """
    loops: Any = importlib.import_module("jax._src.lax.control_flow.loops")
    with ExitStack() as stack:
        for name in ("pe", "ad"):
            if hasattr(loops, name):
                stack.enter_context(wrapped(loops, name, lambda library: _LoopLibrary(library, marks)))
        yield


class _LoopLibrary:
    """Replaces one of JAX's modules in JAX's implementation of loops: has the same functions, except for the replaced
    ones (see `stack_slices`).
    """

    def __init__(self, library: Any, marks: Saver) -> None:
        self._library = library
        self._replaced: Mapping[str, Any] = {
            name: _keep_slices(getattr(library, name), flags, marks)
            for name, flags in _PARTIAL_EVALUATIONS.items()
            if hasattr(library, name)
        }
        if hasattr(library, _FORWARDING):
            self._replaced = {**self._replaced, _FORWARDING: _return_slices(getattr(library, _FORWARDING), marks)}

    def __getattr__(self, name: str) -> Any:
        return self._replaced[name] if name in self._replaced else getattr(self._library, name)


def _return_slices(find: Callable[[Any], Sequence[int | None]], marks: Saver) -> Callable[[Any], Sequence[int | None]]:
    def found(jaxpr: Any) -> Sequence[int | None]:
        sources = find(jaxpr)
        carried = _read_of_caller(_CARRY_COUNT)
        if not isinstance(carried, int):
            return sources
        results = getattr(jaxpr, "jaxpr", jaxpr).outvars
        return [
            None if number >= carried and source is not None and _is_stacked(result, marks) else source
            for number, (result, source) in enumerate(zip(results, sources, strict=True))
        ]

    return found


def _read_of_caller(name: str) -> object:
    """Returns the local variable of that name in the second function up the stack: the function that called our caller.
    None if it has no such variable.
    """
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return frame and frame.f_locals.get(name)


def _keep_slices(split: Callable[..., Any], flags: str, marks: Saver) -> Callable[..., Any]:
    def split_body(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get(flags), Sequence):
            allowed = cast("Sequence[bool]", kwargs[flags])
            inputs = getattr(jaxpr, "jaxpr", jaxpr).invars
            first = len(allowed) - len(inputs)  # constants of the body come before its inputs
            kept = [ok and not _is_stacked(one, marks) for ok, one in zip(allowed[first:], inputs, strict=True)]
            kwargs[flags] = [*allowed[:first], *kept]
        return split(jaxpr, *args, **kwargs)

    return split_body


def _is_stacked(value: Any, marks: Saver) -> bool:
    form = read_form(value)
    return form is not None and marks.copies(form)


_HOIST = "_scan_known_hoisting"
"""Name of JAX's function that hoists operations from a scan. A version of JAX without it hoists elsewhere, and there
`keep_in_loops` changes nothing.
"""


@contextmanager
def keep_in_loops(marks: Saver) -> Generator[None]:
    """Keeps JAX, inside the context, from hoisting operations out of the bodies of scans that call kernels."""
    loops: Any = importlib.import_module("jax._src.lax.control_flow.loops")
    evaluation: Any = importlib.import_module("jax._src.interpreters.partial_eval")
    with ExitStack() as stack:
        if hasattr(loops, _HOIST):
            stack.enter_context(wrapped(loops, _HOIST, lambda function: _hoisting(function, marks)))
            stack.enter_context(
                wrapped(evaluation.JaxprTrace, "process_primitive", lambda method: _staging_all(method, marks))
            )
        yield


def _hoisting(hoist: Callable[..., Any], marks: Saver) -> Callable[..., Any]:
    def hoisted(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        before = marks.is_whole
        marks.is_whole = marks.is_marked and has_kernels(jaxpr)
        try:
            return hoist(jaxpr, *args, **kwargs)
        finally:
            marks.is_whole = before

    return hoisted


def _staging_all(process: Callable[..., Any], marks: Saver) -> Callable[..., Any]:
    def processed(self: Any, primitive: Any, tracers: Any, *rest: Any) -> Any:
        if marks.is_whole:
            tracers = [self.instantiate_const(self.to_jaxpr_tracer(one)) for one in tracers]
        return process(self, primitive, tracers, *rest)

    return processed
