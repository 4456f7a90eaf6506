"""Worker side: what a scan returns of the slices that it takes, and what it keeps of them, as its author means it.

JAX notices that a body returns a slice of `xs` as it came, and hands on `xs` itself in the place of the stacked slices;
what a custom_vjp inside of the body keeps of a slice, likewise. But a slice is a copy, and a kernel that overwrites it
leaves `xs` alone: the author stacks what the kernel left. So in the trace that holds the intent, slices of the forms that
kernels are given are stacked. What a loop takes as a whole is not copied, and JAX hands it on as before.

The functions are JAX's own, without a promise. A JAX that lacks one hands on `xs` as it does without this: readers of the
stacked slices are then taken to mean `xs`.
"""

import importlib
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from ligerdiag.compile.lowering.recomputed import Saver, read_form, wrapped

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
