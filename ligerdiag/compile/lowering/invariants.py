"""Worker side: what stays in a loop whose kernels overwrite what it closes over.

When JAX differentiates a scan, it takes out of the loop what no iteration changes, as far as JAX can see: operations on the
arrays that the body closes over. A kernel that overwrites such an array would run once, before the loop, and the others
would read what it was then. The author means an operation of each iteration. So in the trace that holds the intent, a body
that calls kernels is left whole. What it keeps of an array that it closes over is that array, as before, and no copy: the
operations of the loop read it in their turn.
"""

import importlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from ligerdiag.compile.lowering.recomputed import Saver, has_kernels, wrapped

_TAKE_OUT = "_scan_known_hoisting"
"""JAX's function that takes the operations out. A JAX without it does so elsewhere, and this changes nothing."""


@contextmanager
def keep_in_loops(marks: Saver) -> Generator[None]:
    """Inside of the context, operations stay in the bodies that call kernels."""
    loops: Any = importlib.import_module("jax._src.lax.control_flow.loops")
    evaluation: Any = importlib.import_module("jax._src.interpreters.partial_eval")
    with ExitStack() as stack:
        if hasattr(loops, _TAKE_OUT):
            stack.enter_context(wrapped(loops, _TAKE_OUT, lambda function: _taking_out(function, marks)))
            stack.enter_context(
                wrapped(evaluation.JaxprTrace, "process_primitive", lambda method: _staying(method, marks))
            )
        yield


def _taking_out(take_out: Callable[..., Any], marks: Saver) -> Callable[..., Any]:
    def taken_out(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        before = marks.is_whole
        marks.is_whole = marks.is_marked and has_kernels(jaxpr)
        try:
            return take_out(jaxpr, *args, **kwargs)
        finally:
            marks.is_whole = before

    return taken_out


def _staying(process: Callable[..., Any], marks: Saver) -> Callable[..., Any]:
    def processed(self: Any, primitive: Any, tracers: Any, *rest: Any) -> Any:
        if marks.is_whole:
            tracers = [self.instantiate_const(self.to_jaxpr_tracer(one)) for one in tracers]
        return process(self, primitive, tracers, *rest)

    return processed
