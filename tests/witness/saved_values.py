"""Values that JAX's own rules save for the backward pass, kept as they were when they were saved.

Without this an eager program's backward pass reads what a kernel made of them since: the only place where eager JAX is not
what the author meant. What a user's own rule saves, the residuals of a custom_vjp, is left alone: the user names it.

(1) A rule that linearizes an operation at once returns its residuals: `ad.primitive_linearizations`.
(2) Every other rule, and a custom_jvp's, is evaluated forward, and a known value that meets an unknown tangent is saved:
    `JaxprTrace.instantiate_const`.
(3) `jax.checkpoint` saves its inputs. A body that is run again on an input that a kernel has overwritten meanwhile either
    makes that call again, and means the input as it was given, each time (`early`), or JAX has dropped the call, and it
    means what the kernel left there (else).
(4) A cotangent belongs to JAX's rules, which may hand one array to several of them: `bwd` gets a copy, and so do they.
"""

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.oracle.narrow_floats import override
from tests.witness.own_storage import copy_tree


@contextmanager
def keep_saved_values(*, early: bool = False) -> Iterator[None]:
    """What rules of JAX's own save is copied when they save it. early: see (3)."""
    autodiff: Any = importlib.import_module("jax._src.interpreters.ad")
    tracing: Any = importlib.import_module("jax._src.interpreters.partial_eval")
    core: Any = importlib.import_module("jax._src.core")
    instantiate = tracing.JaxprTrace.instantiate_const

    def instantiate_copy(trace: Any, tracer: Any) -> Any:
        known = tracer.pval.get_known()
        if known is None:
            return instantiate(trace, tracer)
        with core.set_current_trace(trace.parent_trace):
            kept = given[id(known)][1] if id(known) in given else copy_tree(known)
        return instantiate(trace, trace.new_const(kept))

    given: dict[int, tuple[Any, Any]] = {}
    checkpoint: Any = importlib.import_module("jax._src.ad_checkpoint").remat_p
    take_apart = tracing.custom_partial_eval_rules[checkpoint]

    def take_apart_with_copies(trace: Any, *tracers: Any, **params: Any) -> Any:
        before = dict(given)
        known = [tracer.pval.get_known() for tracer in tracers]
        with core.set_current_trace(trace.parent_trace):
            given.update({id(one): (one, copy_tree(one)) for one in known if one is not None})
        try:
            return take_apart(trace, *tracers, **params)
        finally:
            given.clear()
            given.update(before)

    custom: Any = importlib.import_module("jax._src.custom_derivatives").custom_vjp
    call = custom.__call__

    def call_with_copies(self: Any, *args: Any, **keywords: Any) -> Any:
        backward = self.bwd

        def with_copies(*operands: Any) -> Any:
            return copy_tree(backward(*operands[:-1], copy_tree(operands[-1])))

        self.bwd = functools.wraps(backward)(with_copies) if backward else backward
        try:
            return call(self, *args, **keywords)
        finally:
            self.bwd = backward

    rules = _Rules(autodiff.primitive_linearizations)

    def run_on_copies(*args: Any, jaxpr: Any, **_: Any) -> Any:
        return core.eval_jaxpr(jaxpr, (), *copy_tree(args))

    partial_rules = dict(tracing.custom_partial_eval_rules)
    if early:
        partial_rules[checkpoint] = take_apart_with_copies
    with (
        override(checkpoint, impl=run_on_copies if early else checkpoint.impl),
        override(tracing, custom_partial_eval_rules=partial_rules),
        override(custom, __call__=call_with_copies),
        override(autodiff, primitive_linearizations=rules),
        override(tracing.JaxprTrace, instantiate_const=instantiate_copy),
    ):
        yield


class _Rules(dict[Any, Callable[..., Any]]):
    """The rules of 1, whose residuals are copied."""

    def get(self, primitive: Any, default: Any = None) -> Any:
        rule = super().get(primitive)
        if rule is None:
            return default

        def linearize(*args: Any, **params: Any) -> Any:
            outputs, nonzeros, residuals, structured, linearized = rule(*args, **params)
            return outputs, nonzeros, copy_tree(residuals), structured, linearized

        return linearize
