"""Keeps the contents of values that JAX's own rules save for the backward pass.

Without this, the backward pass of an eager program reads what a kernel has made of them since: only there does eager
JAX differ from the author's intent. The residuals of a user's own rule, a custom_vjp, are not copied: the user names
them.

A rule that linearizes an operation at once returns its residuals (`ad.primitive_linearizations`). Every other rule, and
that of a custom_jvp, is evaluated forward, and saves each known value that meets an unknown tangent
(`JaxprTrace.instantiate_const`). `jax.checkpoint` saves its inputs. If a kernel has overwritten such an input before
the body runs again, there are two cases: either the body makes the call again and intends the original input each time
(`early`), or JAX has dropped the call, and the body intends what the kernel left. A cotangent belongs to JAX's rules,
which may pass one array to several of them, so `bwd` gets a copy, and its results are copied.
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
    """Copies the values that JAX's own rules save, when they save them; for `early` see the module."""
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
    evaluate_partially = tracing.custom_partial_eval_rules[checkpoint]

    def evaluate_partially_with_copies(trace: Any, *tracers: Any, **params: Any) -> Any:
        before = dict(given)
        known = [tracer.pval.get_known() for tracer in tracers]
        with core.set_current_trace(trace.parent_trace):
            given.update({id(one): (one, copy_tree(one)) for one in known if one is not None})
        try:
            return evaluate_partially(trace, *tracers, **params)
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

    rules = _CopyingRules(autodiff.primitive_linearizations)

    def run_on_copies(*args: Any, jaxpr: Any, **_: Any) -> Any:
        return core.eval_jaxpr(jaxpr, (), *copy_tree(args))

    partial_rules = dict(tracing.custom_partial_eval_rules)
    if early:
        partial_rules[checkpoint] = evaluate_partially_with_copies
    with (
        override(checkpoint, impl=run_on_copies if early else checkpoint.impl),
        override(tracing, custom_partial_eval_rules=partial_rules),
        override(custom, __call__=call_with_copies),
        override(autodiff, primitive_linearizations=rules),
        override(tracing.JaxprTrace, instantiate_const=instantiate_copy),
    ):
        yield


class _CopyingRules(dict[Any, Callable[..., Any]]):
    """Rules that linearize an operation at once, with their residuals copied."""

    def get(self, primitive: Any, default: Any = None) -> Any:
        rule = super().get(primitive)
        if rule is None:
            return default

        def linearize(*args: Any, **params: Any) -> Any:
            outputs, nonzeros, residuals, structured, linearized = rule(*args, **params)
            return outputs, nonzeros, copy_tree(residuals), structured, linearized

        return linearize
