"""Worker side: who means which value, decided while the function is traced, and HLO of the program exactly as traced.

XLA's dump "before optimizations" is not that: on the way from StableHLO, MLIR's canonicalization has folded a reshape
of a reshape into the value itself, `x + 0` into `x`, and so on. Values that the author made anew then share storage
with the old ones, and a kernel's write would be seen where it is not meant to be. So the program is translated once
more, with an optimization barrier after each operation that could be folded into its operand. Barriers carry no tag. A
kernel call, and any custom call that nothing needs, is marked as having side effects, so that it is not dropped.

To JAX every value is constant, so its rules of differentiation may read a value long after the operation that made it.
A kernel that overwrites its operand breaks that, and then "the value" is two things. A snapshot is a copy at the point
of the program where the trace says which of them is meant:
  1. Values that JAX's own rules save for the backward pass, at the moment when they save them: they mean the value as
     it is then. The same holds for values that a custom_jvp rule saves: its operations read the bytes as they are when
     the rule runs them.
  2. Values that a custom_vjp's `bwd` returns, when it returns: the cotangent is the value at that moment, whatever its
     author had kept it in.
  3. The cotangents that `bwd` is called with: JAX may hand one cotangent to several rules, and each means that value.
  4. Values that `jax.checkpoint` saves by a policy: as the operation made them.
The residuals of a custom_vjp are the author's own references: `bwd` reads the bytes as they are when it reads.
  5. A kernel call without used outputs still counts as called: JAX drops it, and its author meant what it overwrites.
     That is how `jax.checkpoint` loses a kernel when it computes the forward pass again.
  6. What the body of a scan returns of the slices that it takes, as it leaves them (see `stacked`).
  7. An operation of a loop's body is done in each iteration, as long as the body calls kernels (see `invariants`).
  8. `jnp.copy` and `jnp.array`: the copy is another value, and JAX lowers it to the array itself.

A snapshot is an operation of ours, an identity. It exists only in a second trace, from which the program as written is
made (see `as_written`); the user's own trace is compiled. Only values of the shapes and dtypes that kernels are given
are copied: no other value can be overwritten.
"""

import importlib
from collections.abc import Callable, Generator, Sequence
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
"""Operations that no folding turns into one of their operands, or that are no operation on an array."""
_ENTERED = frozenset({
    "builtin.module", "func.func", "sdy.manual_computation", "stablehlo.case", "stablehlo.if", "stablehlo.while",
})  # fmt: skip
"""Operations whose regions are part of the program's flow."""
_EFFECTIVE = frozenset({"func.call", "stablehlo.custom_call"})
"""Operations that may have an effect whoever uses their results."""


def protect_as_written(module: Any) -> str:
    """Text of a tagged StableHLO module in which nothing can be folded: `translate_to_hlo` makes HLO of it."""
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
                    _put_barrier(op, inner[position + 1])


def _carries_kernel(call: Any) -> bool:
    """Returns whether it is kept whoever uses it: the loop or function around it may be dead."""
    return has_trait(ir.StringAttr(call.attributes["call_target_name"]).value, CallTrait.KERNEL_BY_NAME)


def _is_dead(operation: Any) -> bool:
    """Returns whether nothing that has an effect or ends the block uses its results, or what is computed from them."""
    seen, following = set[int](), [operation]
    while following:
        for user in (use.owner.operation for result in following.pop().results for use in result.uses):
            if not user.results or user.name in _EFFECTIVE or user.name in _ENTERED:
                return False
            if hash(user) not in seen:
                seen.add(hash(user))
                following.append(user)
    return True


def _put_barrier(operation: Any, following: Any) -> None:
    value = operation.results[0]
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
    """One trace under `mark_intent`; filled while it runs."""

    forms: frozenset[Form] | None
    """Of the values that are copied; None in a trace that copies nothing and takes notes only."""
    kernel_forms: set[Form] = field(default_factory=set[Form])
    """Of the operands of kernels."""
    saved_forms: set[Form] = field(default_factory=set[Form])
    """Forms of the values that would be copied, whatever kernels are given."""
    in_shards: bool = False
    """Whether a kernel is called in a shard_map."""
    snapshots: int = 0
    is_whole: bool = False
    """Whether the body of a loop is gone through that stays as it is, see `invariants`."""
    _epoch: int = 0
    """Counts the kernel calls: between two of them a value stands still."""
    _known: dict[tuple[int, int, int], tuple[Any, Any, Any]] = field(
        default_factory=dict[tuple[int, int, int], tuple[Any, Any, Any]]
    )
    """(value, trace, epoch), by identity, to the value, the trace and the copy."""
    _pinned: dict[tuple[int, int], tuple[Any, Any]] = field(default_factory=dict[tuple[int, int], tuple[Any, Any]])
    """(value, trace), by identity, to the value and what is saved of it, whenever that is."""
    _bodies: list[tuple[Any, Any, Sequence[Any]]] = field(default_factory=list[tuple[Any, Any, Sequence[Any]]])
    """Bodies that are taken apart, innermost last: the trace, the jaxpr, and its inputs as far as they are known."""

    @property
    def needs_snapshots(self) -> bool:
        """Returns whether a value that the rules save may be overwritten, or a call be lost in a shard_map that is made
        again."""
        return bool(self.kernel_forms & self.saved_forms) or (self.in_shards and bool(self.saved_forms))

    @property
    def is_marked(self) -> bool:
        """Returns whether this trace holds the author's intent, and does not only take notes."""
        return self.forms is not None

    def note_kernel(self, operands: Sequence[Any]) -> None:
        """Takes note of a kernel call."""
        self._epoch += 1
        self.in_shards = self.in_shards or _has_named_axes()
        self.kernel_forms.update(form for form in map(read_form, operands) if form is not None)

    def copies(self, form: Form) -> bool:
        """Returns whether a saved value of this form is copied; takes note of it."""
        self.saved_forms.add(form)
        return self.forms is not None and form in self.forms

    def save(self, value: Any, trace: Any = None) -> Any:
        """Returns a copy of the value as it is now, made by this trace; the value itself where it is never
        overwritten."""
        form = read_form(value)
        if form is None or not self.copies(form):
            return value
        if (trace is not None or _find_trace() is None) and (id(value), id(trace)) in self._pinned:
            return self._pinned[id(value), id(trace)][1]
        trace = _find_trace() if trace is None else trace
        key = (id(value), id(trace), self._epoch)
        if key not in self._known:
            self.snapshots += 1
            with _set_trace(trace):
                self._known[key] = (value, trace, SNAPSHOT.bind(value))
        return self._known[key][2]

    @contextmanager
    def pin(self, trace: Any, body: Any, values: Sequence[Any]) -> Generator[None]:
        """While this trace takes `body` apart, the body's inputs are saved as they are now."""
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
        """The input is what the body leaves there; whether it is one of the body that is taken apart."""
        if not self._bodies or self._bodies[-1][1] is not body:
            return False
        outer, _, values = self._bodies[-1]
        return self._pinned.pop((id(values[position]), id(outer)), None) is not None

    def save_all(self, tree: Any) -> Any:
        """Returns the tree with a copy of each array."""
        library: Any = jax
        return library.tree_util.tree_map(self.save, tree)

    def forget(self) -> None:
        """Drops the values of the trace."""
        self._known.clear()


@contextmanager
def mark_intent(kernel_primitives: Sequence[Any], forms: frozenset[Form] | None) -> Generator[IntentTrace]:
    """Puts snapshots into what is traced inside of the context; see `IntentTrace` for `forms`.

    Traces that JAX has cached from outside are not seen: clear its caches before, and after where there were snapshots.
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
    """2 and 3 above, for `custom_vjp.__call__`."""

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
    """1 above, for `JaxprTrace.instantiate_const`: a known value becomes an operand of a linear operation."""

    def instantiated(self: Any, tracer: Any) -> Any:
        known = tracer.pval.get_known()
        if known is None or marks.is_whole or getattr(self, "_ligerdiag_custom", 0):
            return instantiate(self, tracer)
        copy = marks.save(known, getattr(self, "parent_trace", None))
        return instantiate(self, tracer if copy is known else self.new_const(copy))

    return instantiated


def _skip_custom(process: Callable[..., Any], marks: IntentTrace) -> Callable[..., Any]:
    """The residuals of a custom_vjp are not copied, for `JaxprTrace.default_process_primitive`."""
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
    """8 above: copies that the author asks for are snapshots."""
    primitive: Any = getattr(importlib.import_module("jax._src.lax.lax"), "copy_p", None)
    if primitive is None:
        yield
        return

    def replace(bind: Any) -> Any:
        def bound(operand: Any, **params: Any) -> Any:
            form = read_form(operand) if isinstance(operand, _core().Tracer) else None
            if form is None or not marks.copies(form):
                return bind(operand, **params)
            marks.snapshots += 1
            return SNAPSHOT.bind(operand)

        return bound

    primitive.bind = replace(primitive.bind)
    try:
        yield
    finally:
        del primitive.bind


def _core() -> Any:
    return importlib.import_module("jax._src.core")


def _has_named_axes() -> bool:
    """Returns whether a shard_map is traced; False in versions of JAX (before 0.5) that keep them elsewhere."""
    find = getattr(_core(), "get_axis_env", None)
    return find is not None and bool(find().axis_sizes)


def _find_trace() -> Any:
    """Returns the current trace; None in versions of JAX (before 0.5) that find it from the operands."""
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
