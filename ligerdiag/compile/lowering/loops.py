"""Worker side: what loops return, keep and hand on, as their author means it.

**Slices.** JAX notices that a body returns a slice of `xs` as it came, and hands on `xs` itself in the place of the
stacked slices; what a custom_vjp inside of the body keeps of a slice, likewise. But a slice is a copy, and a kernel
that overwrites it leaves `xs` alone: the author stacks what the kernel left. So in the trace that holds the intent,
slices of the forms that kernels are given are stacked. What a loop takes as a whole is not copied, and JAX hands it
on as before.

The functions are JAX's own, without a promise. A JAX that lacks one hands on `xs` as it does without this: readers of
the stacked slices are then taken to mean `xs`.

**Invariants.** When JAX differentiates a scan, it takes out of the loop what no iteration changes, as far as JAX can
see: operations on the arrays that the body closes over. A kernel that overwrites such an array would run once, before
the loop, and the others would read what it was then. The author means an operation of each iteration. So in the trace
that holds the intent, a body that calls kernels is left whole. What it keeps of an array that it closes over is that
array, as before, and no copy: the operations of the loop read it in their turn.
"""

import importlib
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from ligerdiag.compile.lowering.snapshots import Saver, has_kernels, read_form, wrapped

_RESULTS = "_jaxpr_forwarding"
"""JAX's function from a jaxpr to the number of the input that each result is, or None."""
_CARRIED = "num_carry"
"""The caller's variable: how many of a scan's first results are its carry, which is handed on as a whole. `while_loop`,
which takes no slices, has none."""
_RESIDUALS = {"partial_eval_jaxpr_nounits_fwd": "fwd", "linearize_jaxpr": "allow_fwds"}
"""JAX's functions that take a body apart, and their argument which says of each input whether it may stand for what is
kept of it. What is kept of an input that is no slice JAX moves out of the loop by itself."""


@contextmanager
def stack_slices(marks: Saver) -> Generator[None]:
    """Inside of the context, what the body of a scan returns or keeps of its slices is returned by the scan.

    JAX asks in many places which inputs are passed on; only a loop slices them, so only the loops' view of JAX changes.
    """
    loops: Any = importlib.import_module("jax._src.lax.control_flow.loops")
    with ExitStack() as stack:
        for name in ("pe", "ad"):
            if hasattr(loops, name):
                stack.enter_context(wrapped(loops, name, lambda library: _Library(library, marks)))
        yield


class _Library:
    """A module of JAX's as the loops see it."""

    def __init__(self, library: Any, marks: Saver) -> None:
        self._library = library
        self._replaced: Mapping[str, Any] = {
            name: _keep(getattr(library, name), flags, marks)
            for name, flags in _RESIDUALS.items()
            if hasattr(library, name)
        }
        if hasattr(library, _RESULTS):
            self._replaced = {**self._replaced, _RESULTS: _return(getattr(library, _RESULTS), marks)}

    def __getattr__(self, name: str) -> Any:
        return self._replaced[name] if name in self._replaced else getattr(self._library, name)


def _return(find: Callable[[Any], Sequence[int | None]], marks: Saver) -> Callable[[Any], Sequence[int | None]]:
    def found(jaxpr: Any) -> Sequence[int | None]:
        sources = find(jaxpr)
        carried = _read_of_caller(_CARRIED)
        if not isinstance(carried, int):
            return sources
        results = getattr(jaxpr, "jaxpr", jaxpr).outvars
        return [
            None if number >= carried and source is not None and _is_stacked(result, marks) else source
            for number, (result, source) in enumerate(zip(results, sources, strict=True))
        ]

    return found


def _read_of_caller(name: str) -> object:
    """Returns the variable of the function that called the caller of this one; None where there is none."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return frame and frame.f_locals.get(name)


def _keep(take_apart: Callable[..., Any], flags: str, marks: Saver) -> Callable[..., Any]:
    def taken_apart(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get(flags), Sequence):
            allowed = cast("Sequence[bool]", kwargs[flags])
            inputs = getattr(jaxpr, "jaxpr", jaxpr).invars
            first = len(allowed) - len(inputs)  # constants of the body come before its inputs
            kept = [ok and not _is_stacked(one, marks) for ok, one in zip(allowed[first:], inputs, strict=True)]
            kwargs[flags] = [*allowed[:first], *kept]
        return take_apart(jaxpr, *args, **kwargs)

    return taken_apart


def _is_stacked(value: Any, marks: Saver) -> bool:
    form = read_form(value)
    return form is not None and marks.copies(form)


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
