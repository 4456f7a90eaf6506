"""Records which version of a value the author of a function means, and translates the program to HLO exactly as traced. The
versions are the contents before and after a kernel overwrites them.

XLA's dump "before optimizations" is not the program as traced. On the way from StableHLO, MLIR's canonicalization folds
a reshape of a reshape into the value itself, `x + 0` into `x`, and so on. Values that the author made anew then share
storage with the old ones, and a kernel's write would reach readers that the author does not mean. So the program is
translated once more, with an optimization barrier after each operation that could be folded into its operand. A barrier
has the tag of its operation. A kernel call, and any custom call without a reader, is marked as having side effects, so
that it is not dropped.

JAX takes every value to be constant, so its differentiation rules may read a value long after the operation that made
it. A kernel that overwrites its operand breaks that: the value then has two versions. A *snapshot* copies a value at
the point of the program that says which version the author means:

- Values that JAX's own rules save for the backward pass, and those that a custom_jvp rule saves: the version at the
  moment when they are saved.
- Values that a custom_vjp's `bwd` returns: the version when `bwd` returns, wherever its author kept them.
- Cotangents that are passed to `bwd`: the version when they are passed; JAX may pass one cotangent to several rules,
  and each rule means that version.
- Values that `jax.checkpoint` saves by a policy: the version that their operation made.
- Slices of a scan that its body returns: the version that the body leaves (`intent_jax.stack_slices`).
- `jnp.copy`, `jnp.array` and `jax.device_put(x, may_alias=False)`: the copy is another value, although JAX lowers it to the
  array itself. The same holds for a Ref: an array that it is made from or assigned, or that is read from it. It also
  holds for `x**1`, for a reduction of no axes and for an `all_to_all` of one device.

The residuals of a custom_vjp get no snapshot. They are references that the author keeps: `bwd` reads the bytes at the
time when it runs.

Two more rules keep calls and operations where the author has them. A kernel call without used outputs counts as a call,
because its author means the operand that it overwrites. JAX drops such a call, for example when `jax.checkpoint` computes
the forward pass again (`intent_jax.keep_calls`). An operation in the body of a loop that calls kernels runs in each
iteration (`intent_jax.keep_in_loops`).

A snapshot is an identity operation of ours. It exists only in a second trace, from which the program as written is made
(`protect_as_written`); XLA compiles the user's own trace. Only values with the shapes and dtypes of kernels' operands
are copied, because no other value can be overwritten.
"""

import importlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax
from jaxlib.mlir import ir

from ligerdiag.compile.lowering.intent_jax import (
    CUSTOM,
    SNAPSHOT,
    Form,
    keep_calls,
    keep_in_loops,
    pin_inputs,
    read_form,
    stack_slices,
    watch_splits,
    wrapped,
)
from ligerdiag.compile.lowering.tags import read_tag
from ligerdiag.hlo.custom_calls import CallTrait, has_trait
from ligerdiag.hlo.module import ADDED_BARRIER

_NEVER_FOLDED = frozenset({
    "stablehlo.constant", "stablehlo.iota", "stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution",
    "stablehlo.reduce", "stablehlo.custom_call", "stablehlo.while", "stablehlo.if", "stablehlo.case", "stablehlo.return",
    "stablehlo.optimization_barrier", "stablehlo.sort", "stablehlo.gather", "stablehlo.scatter", "stablehlo.tuple",
    "stablehlo.get_tuple_element", "stablehlo.composite", "stablehlo.create_token", "stablehlo.after_all",
    "stablehlo.partition_id", "stablehlo.replica_id",
})  # fmt: skip
"""Operations that need no barrier: MLIR never replaces them by one of their operands, or their results are not arrays."""
_ENTERED = frozenset({
    "builtin.module", "func.func", "sdy.manual_computation", "stablehlo.case", "stablehlo.if", "stablehlo.while",
})  # fmt: skip
"""Operations whose regions contain operations of the program, so that barriers are inserted there too."""
_CHOICES = frozenset({"stablehlo.case", "stablehlo.if"})
"""Operations that MLIR replaces by the results of one region if their first operand is a constant."""
_EFFECTIVE = frozenset({"func.call", "stablehlo.custom_call"})
"""Operations that count as used even if nothing uses their results, because they may have an effect."""
_REDUCTIONS = (
    "reduce_sum_p", "reduce_prod_p", "reduce_max_p", "reduce_min_p", "reduce_and_p", "reduce_or_p", "reduce_xor_p",
)  # fmt: skip
"""Primitives of JAX that leave an array unchanged if they reduce none of its axes."""


def protect_as_written(module: Any) -> str:
    """Copies a tagged StableHLO module so that no operation can be folded, and returns the copy as text.
    `translate_to_hlo` then keeps the program exactly as traced.
    """
    with module.context:
        clone = module.operation.clone()
        _protect(clone.operation)
        return str(clone.operation.get_asm(enable_debug_info=True))


def _protect(operation: Any) -> None:
    if operation.name not in _ENTERED:
        return
    for region in operation.regions:
        for block in region:
            inner = [op.operation for op in block]
            for position, op in enumerate(inner):
                _protect(op)
                if op.name == "stablehlo.custom_call" and (_carries_kernel(op) or _is_dead(op)):
                    op.attributes["has_side_effect"] = ir.BoolAttr.get(True)
                if op.name.startswith("stablehlo.") and op.name not in _NEVER_FOLDED and len(op.results) == 1:
                    _put_barrier(op, inner[position + 1], 0)
                elif op.name in _CHOICES and _is_constant(op.operands[0]) and not _may_overwrite(op):
                    for number, result in enumerate(op.results):
                        if str(result.type).startswith("tensor<"):
                            _put_barrier(op, inner[position + 1], number)


def _carries_kernel(call: Any) -> bool:
    """Whether the custom call is of a kind that may run a kernel; such a call is kept even if the loop or function
    around it is dead.
    """
    return has_trait(
        ir.StringAttr(call.attributes["call_target_name"]).value,
        CallTrait.KERNEL_BY_NAME | CallTrait.CARRIES_TRITON | CallTrait.MOSAIC,
    )


def _is_dead(operation: Any) -> bool:
    """Whether the operation is dead: no operation that has an effect or ends the block depends on its results, directly
    or through other operations.
    """
    seen, following = set[int](), [operation]
    while following:
        for user in (use.owner.operation for result in following.pop().results for use in result.uses):
            if not user.results or user.name in _EFFECTIVE or user.name in _ENTERED:
                return False
            if hash(user) not in seen:
                seen.add(hash(user))
                following.append(user)
    return True


def _is_constant(value: Any) -> bool:
    """Whether the value is a constant of the program, so that MLIR replaces a choice by it with the chosen branch."""
    owner = value.owner
    return getattr(getattr(owner, "operation", owner), "name", "") == "stablehlo.constant"


def _may_overwrite(choice: Any) -> bool:
    """Whether a kernel may run inside the choice. A barrier behind it would then not be ordered after the kernel."""
    return any(
        inner.operation.name in _EFFECTIVE or _may_overwrite(inner.operation)
        for region in choice.regions
        for block in region
        for inner in block
    )


def _put_barrier(operation: Any, following: Any, number: int) -> None:
    value = operation.results[number]
    operations: Any = ir.Operation
    tag, context = read_tag(operation), operation.context
    barrier = operations.create(
        "stablehlo.optimization_barrier",
        results=[value.type],
        operands=[value],
        loc=ir.Location.name(f"{ADDED_BARRIER}#ld{tag}", context=context) if tag else ir.Location.unknown(context),
        ip=ir.InsertionPoint(following),
    )
    value.replace_all_uses_with(barrier.results[0])
    barrier.operands[0] = value


@dataclass(slots=True, eq=False)
class IntentTrace:
    """The snapshots that `mark_intent` puts into one trace, and notes on the trace's kernels and saved values. A
    snapshot is a copy that keeps the version that the author means.
    """

    forms: frozenset[Form] | None
    """Shapes and dtypes of the values that get a snapshot; None for a trace without snapshots, which only takes notes.
    """
    kernel_forms: set[Form] = field(default_factory=set[Form])
    """Shapes and dtypes of the operands of all kernel calls in the trace."""
    saved_forms: set[Form] = field(default_factory=set[Form])
    """Shapes and dtypes of all values that are saved; a value gets a snapshot if a kernel has an operand of its shape
    and dtype.
    """
    in_shards: bool = False
    """Whether a kernel is called inside a `shard_map`."""
    is_whole: bool = False
    """Whether JAX is processing the body of a loop that must not be split, see `intent_jax.keep_in_loops`."""
    _epoch: int = 0
    """Number of kernel calls so far; between two kernel calls no value changes, so one snapshot of a value suffices."""
    _known: dict[tuple[int, int, int], tuple[Any, Any, Any]] = field(
        default_factory=dict[tuple[int, int, int], tuple[Any, Any, Any]]
    )
    """The snapshots so far: (id of the value, id of the trace, epoch) to (value, trace, snapshot)."""
    _pinned: dict[tuple[int, int], tuple[Any, Any]] = field(default_factory=dict[tuple[int, int], tuple[Any, Any]])
    """The snapshots that are used whenever the value is saved, see `pin`: (id of the value, id of the trace) to (value,
    snapshot).
    """
    _bodies: list[tuple[Any, Any, Sequence[Any]]] = field(default_factory=list[tuple[Any, Any, Sequence[Any]]])
    """The checkpoint bodies that JAX is splitting, innermost last: (outer trace, jaxpr, the jaxpr's inputs, None for an
    input that JAX does not know).
    """

    @property
    def needs_snapshots(self) -> bool:
        """Returns whether the program needs a second trace with snapshots. A snapshot is a copy that keeps the intended
        version of a value. The program needs them if a kernel may overwrite a saved value. It also needs them if JAX
        may lose a kernel call when it rebuilds a `shard_map`.
        """
        return bool(self.kernel_forms & self.saved_forms) or (self.in_shards and bool(self.saved_forms))

    @property
    def is_marked(self) -> bool:
        """Returns whether this trace gets snapshots. A trace without snapshots only collects notes."""
        return self.forms is not None

    def note_kernel(self, operands: Sequence[Any]) -> None:
        """Records that the trace has a kernel call with these operands."""
        self._epoch += 1
        self.in_shards = self.in_shards or _has_named_axes()
        self.kernel_forms.update(form for form in map(read_form, operands) if form is not None)

    def copies(self, form: Form) -> bool:
        """Records that the trace saves a value of this shape and dtype. Returns whether such values get a snapshot, a copy
        that keeps the present version.
        """
        self.saved_forms.add(form)
        return self.forms is not None and form in self.forms

    def save(self, value: Any, trace: Any = None) -> Any:
        """Returns a snapshot of the value, a copy that keeps the value's present version. Returns the value itself if
        no kernel can overwrite it.

        trace: the trace in which to make the copy; by default the current one.
        """
        form = read_form(value)
        if form is None or not self.copies(form):
            return value
        if (trace is not None or _find_trace() is None) and (id(value), id(trace)) in self._pinned:
            return self._pinned[id(value), id(trace)][1]
        trace = _find_trace() if trace is None else trace
        key = (id(value), id(trace), self._epoch)
        if key not in self._known:
            with _set_trace(trace):
                self._known[key] = (value, trace, SNAPSHOT.bind(value))
        return self._known[key][2]

    @contextmanager
    def pin(self, trace: Any, body: Any, values: Sequence[Any]) -> Generator[None]:
        """Inside the context, saves each input of `body` in the version that it had at the beginning of `body`. A
        version is the contents before or after a kernel's write.

        body: the body of a `jax.checkpoint`, which `trace` splits inside the context. values: the inputs; None for an
        input that JAX does not know.
        """
        outer = getattr(trace, "parent_trace", None)
        before = dict(self._pinned)
        for value in values:
            if value is not None and (outer is not None or _find_trace() is None):
                self._pinned[id(value), id(outer)] = value, self.save(value, outer)
        self._bodies.append((outer, body, values))
        try:
            yield
        finally:
            self._bodies.pop()
            self._pinned = before

    def unpin(self, body: Any, position: int) -> bool:
        """Ends the effect of `pin` on one input of `body`. If the input is saved from now on, it is saved in the
        version that it has at the end of the body. Returns whether the input was pinned and `body` is the innermost
        body that JAX is splitting.

        body: the body of a `jax.checkpoint`. position: position of the input.
        """
        if not self._bodies or self._bodies[-1][1] is not body:
            return False
        outer, _, values = self._bodies[-1]
        return self._pinned.pop((id(values[position]), id(outer)), None) is not None

    def save_all(self, tree: Any) -> Any:
        """Returns the tree with a snapshot in place of each array. A snapshot is a copy that keeps the array's present
        version (see `save`).
        """
        library: Any = jax
        return library.tree_util.tree_map(self.save, tree)

    def forget(self) -> None:
        """Drops the references to the values and snapshots of the trace."""
        self._known.clear()


@contextmanager
def mark_intent(kernel_primitives: Sequence[Any], forms: frozenset[Form] | None) -> Generator[IntentTrace]:
    """Inserts snapshots into everything that JAX traces inside the context, and yields the snapshots and notes. A
    snapshot is a copy that keeps the version of a value that the author means.

    forms: shapes and dtypes of the values that get a snapshot; None to insert none and only take notes. JAX does not
    trace a function again that it has in its caches: clear JAX's caches before, and also afterwards if snapshots were
    inserted.
    """
    marks = IntentTrace(forms)
    with (
        wrapped(_custom_vjp(), "__call__", lambda call: _mark_backward(call, marks)),
        wrapped(_partial_eval().JaxprTrace, "instantiate_const", lambda method: _mark_residuals(method, marks)),
        wrapped(_partial_eval().JaxprTrace, "default_process_primitive", lambda method: _skip_custom(method, marks)),
        watch_splits(marks),
        _noted_kernels(kernel_primitives, marks),
        _snapshots_for_copies(marks),
        _pinned_checkpoint(marks),
        keep_calls(kernel_primitives if marks.is_marked else ()),
        stack_slices(marks),
        keep_in_loops(marks),
    ):
        try:
            yield marks
        finally:
            marks.forget()


def _mark_backward(call: Callable[..., Any], marks: IntentTrace) -> Callable[..., Any]:
    """Wraps `custom_vjp.__call__`, so that the cotangents that `bwd` gets and the values that it returns become
    snapshots (copies that keep their present version).
    """

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        backward = self.bwd
        if backward is None:
            return call(self, *args, **kwargs)

        def marked(*operands: Any) -> Any:
            *others, cotangents = operands
            return marks.save_all(backward(*others, marks.save_all(cotangents)))

        self.bwd = _named_like(marked, backward)
        try:
            return call(self, *args, **kwargs)
        finally:
            self.bwd = backward

    return called


def _mark_residuals(instantiate: Callable[..., Any], marks: IntentTrace) -> Callable[..., Any]:
    """Wraps `JaxprTrace.instantiate_const`, by which JAX saves a known value for a linear operation of the backward
    pass, so that a snapshot is saved instead.
    """

    def instantiated(self: Any, tracer: Any) -> Any:
        known = tracer.pval.get_known()
        if known is None or marks.is_whole or getattr(self, "_ligerdiag_custom", 0):
            return instantiate(self, tracer)
        copy = marks.save(known, getattr(self, "parent_trace", None))
        return instantiate(self, tracer if copy is known else self.new_const(copy))

    return instantiated


def _skip_custom(process: Callable[..., Any], marks: IntentTrace) -> Callable[..., Any]:
    """Wraps `JaxprTrace.default_process_primitive`, so that the residuals of a custom_vjp get no snapshot."""
    del marks

    def processed(self: Any, primitive: Any, *rest: Any) -> Any:
        if primitive.name != CUSTOM:
            return process(self, primitive, *rest)
        self._ligerdiag_custom = getattr(self, "_ligerdiag_custom", 0) + 1
        try:
            return process(self, primitive, *rest)
        finally:
            self._ligerdiag_custom -= 1

    return processed


def _named_like(function: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        if isinstance(found := getattr(other, name, None), str):
            setattr(function, name, found)
    function.__dict__["__wrapped__"] = other
    return function


@contextmanager
def _pinned_checkpoint(marks: IntentTrace) -> Generator[None]:
    rules = _partial_eval().custom_partial_eval_rules
    remat = importlib.import_module("jax._src.ad_checkpoint").remat_p
    original = rules[remat]
    rules[remat] = pin_inputs(original, marks)
    try:
        yield
    finally:
        rules[remat] = original


@contextmanager
def _noted_kernels(primitives: Sequence[Any], marks: IntentTrace) -> Generator[None]:
    before = [primitive.__dict__.get("bind") for primitive in primitives]

    def watch(bind: Any) -> Any:
        def bound(*args: Any, **params: Any) -> Any:
            results = bind(*args, **params)
            marks.note_kernel(args)
            return results

        return bound

    for primitive in primitives:
        primitive.bind = watch(primitive.bind)
    try:
        yield
    finally:
        for primitive, bind in zip(primitives, before, strict=True):
            if bind is None:
                del primitive.bind
            else:
                primitive.bind = bind


@contextmanager
def _snapshots_for_copies(marks: IntentTrace) -> Generator[None]:
    """Replaces the copies that the author requests by snapshots inside the context: those of `jnp.copy`, of
    `jax.device_put(x, may_alias=False)`, and of a whole Ref, which has storage of its own, when it is made, read or
    assigned.
    """

    def copy(operand: Any) -> Any:
        form = read_form(operand) if isinstance(operand, _core().Tracer) else None
        return SNAPSHOT.bind(operand) if form is not None and marks.copies(form) else operand

    def replace_copy(bind: Any) -> Any:
        def bound(operand: Any, **params: Any) -> Any:
            copied = copy(operand)
            return bind(operand, **params) if copied is operand else copied

        return bound

    def copy_placed(bind: Any) -> Any:
        def bound(*operands: Any, **params: Any) -> Any:
            ways = params.get("copy_semantics", ())
            if len(ways) == len(operands):
                pairs = zip(operands, ways, strict=True)
                operands = tuple(copy(one) if getattr(way, "name", "") == "ALWAYS_COPY" else one for one, way in pairs)
            return bind(*operands, **params)

        return bound

    def copy_initial(bind: Any) -> Any:
        def bound(initial: Any, **params: Any) -> Any:
            return bind(copy(initial), **params)

        return bound

    def copy_read(bind: Any) -> Any:
        def bound(ref: Any, *indices: Any, **params: Any) -> Any:
            value = bind(ref, *indices, **params)
            return copy(value) if _is_whole(ref, value) else value

        return bound

    def copy_assigned(bind: Any) -> Any:
        def bound(ref: Any, value: Any, *indices: Any, **params: Any) -> Any:
            return bind(ref, copy(value) if _is_whole(ref, value) else value, *indices, **params)

        return bound

    def copy_unchanged(bind: Any) -> Any:
        def bound(operand: Any, *others: Any, **params: Any) -> Any:
            result = bind(operand, *others, **params)
            return copy(result) if _lowers_to_nothing(params) else result

        return bound

    replaced: list[Any] = []
    for module, names, replace in (
        ("jax._src.lax.lax", ("copy_p",), replace_copy),
        ("jax._src.lax.lax", ("integer_pow_p", *_REDUCTIONS), copy_unchanged),
        ("jax._src.lax.parallel", ("all_to_all_p",), copy_unchanged),
        ("jax._src.dispatch", ("device_put_p",), copy_placed),
        ("jax._src.core", ("ref_p", "mutable_array_p"), copy_initial),
        ("jax._src.state.primitives", ("get_p",), copy_read),
        ("jax._src.state.primitives", ("swap_p",), copy_assigned),
    ):
        found = [getattr(importlib.import_module(module), name, None) for name in names]
        for primitive in found:
            if primitive is not None:
                primitive.bind = replace(primitive.bind)
                replaced.append(primitive)
    try:
        yield
    finally:
        for primitive in replaced:
            del primitive.bind


def _lowers_to_nothing(params: Mapping[str, Any]) -> bool:
    """Whether an operation with these parameters is its operand after JAX and MLIR have lowered it: `x**1`, a reduction of
    no axes, an exchange between the devices of an axis of size 1. False inside a Pallas kernel, where every value is new.
    """
    if not _has_array_refs():
        return False
    if "axis_name" in params:
        name, sizes = params["axis_name"], _core().get_axis_env().axis_sizes
        names = list[Any](name) if isinstance(name, tuple) else [name]  # pyright: ignore[reportUnknownArgumentType]
        return all(sizes.get(one) == 1 for one in names)
    return params.get("y") == 1 or params.get("axes") == ()


def _is_whole(ref: Any, value: Any) -> bool:
    """Whether the value is all of an array Ref. A part of it is a slice, which is an operation of its own. False for the
    Refs of a Pallas kernel.
    """
    return _has_array_refs() and getattr(ref, "shape", None) == getattr(value, "shape", ())


def _has_array_refs() -> bool:
    """Whether JAX checks array Refs. It does not inside a Pallas kernel, nor do old versions of JAX."""
    checks = getattr(importlib.import_module("jax._src.config"), "mutable_array_checks", None)
    return bool(getattr(checks, "value", False))


def _core() -> Any:
    return importlib.import_module("jax._src.core")


def _has_named_axes() -> bool:
    """Whether JAX is tracing inside a `shard_map`; always False for JAX before 0.5, in which this is not detected."""
    find = getattr(_core(), "get_axis_env", None)
    return find is not None and bool(find().axis_sizes)


def _find_trace() -> Any:
    """Returns the trace that is current in JAX; None for JAX before 0.5, which finds the trace from the operands."""
    core: Any = importlib.import_module("jax._src.core")
    return getattr(getattr(core, "trace_ctx", None), "trace", None)


def _set_trace(trace: Any) -> AbstractContextManager[Any]:
    core: Any = importlib.import_module("jax._src.core")
    enter = getattr(core, "set_current_trace", None)
    return nullcontext() if enter is None or trace is None else enter(trace)


def _custom_vjp() -> Any:
    return importlib.import_module("jax._src.custom_derivatives").custom_vjp


def _partial_eval() -> Any:
    return importlib.import_module("jax._src.interpreters.partial_eval")
