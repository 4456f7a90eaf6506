"""Explains exceptions that kernels cause: finds the line that Triton cannot compile, and recognizes calls that are
written for another generation of jax-triton.

Before jax-triton 0.4, each output is a pointer parameter of the kernel, an aliased one too, and operands are arrays.
Since 0.4, an aliased output has no parameter of its own, and a Ref says that the kernel overwrites its operand.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from types import FrameType, TracebackType
from typing import Any

import jax

_SHOWN_LINES = 8
"""The most lines of a kernel's source that a message shows; the last is the one at fault."""


_FAULT, _BASE = "CompilationError", "TritonError"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFault:
    """The reason why Triton cannot compile a kernel, with the source line."""

    message: str
    """File, line and reason, in one line of text."""
    diagram: str
    """The lines of the kernel's source up to the fault, with a caret under the place; they must not be wrapped."""


def find_kernel_fault(fault: BaseException) -> KernelFault | None:
    """Returns the reason why Triton could not compile a kernel. Returns None if the exception has another cause."""
    chain = [one for one in _iterate_causes(fault) if _is_of_triton(one)]
    if not chain:
        return None
    innermost: Any = chain[-1]
    node, source = getattr(innermost, "node", None), getattr(innermost, "src", None)
    reason = str(getattr(innermost, "error_message", None) or "") if node is not None else str(innermost)
    text = f"{type(innermost).__name__}: {' '.join(reason.split())}"
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    if not line or not isinstance(source, str):
        return KernelFault(message=text, diagram=str(innermost))
    place = next((place for one in reversed(chain) for place in _find_places(one.__traceback__, line)), "")
    shown = source.split("\n")[:line][-_SHOWN_LINES:]
    diagram = "\n".join((f"{place or 'line'}:{column + 1}", *shown, f"{' ' * column}^", reason.strip()))
    return KernelFault(message=f"{place}: {text}" if place else text, diagram=diagram.rstrip())


def _iterate_causes(fault: BaseException) -> Iterator[BaseException]:
    """Yields the exception and its causes, outermost first: for each function that calls the one at fault, Triton
    raises another exception.
    """
    seen: set[int] = set()
    one: BaseException | None = fault
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__


def _is_of_triton(fault: BaseException) -> bool:
    return any(
        kind.__name__ in (_FAULT, _BASE) and kind.__module__.startswith("triton.") for kind in type(fault).__mro__
    )


def _find_places(trace: TracebackType | None, line: int) -> Iterator[str]:
    """Yields, for each function that Triton was compiling, innermost first, the place of the line if the line is in that
    function, such as `mine.py:12`. A fault is in the innermost function, so its place is the first one.

    line: counted from the beginning of the function. Triton's code generators, which the frames of the traceback
    contain, know the file and the line where their function begins.
    """
    generators: list[Any] = []
    while trace is not None:
        generators.append(trace.tb_frame.f_locals.get("self"))
        trace = trace.tb_next
    for generator in reversed(generators):
        file, begin = getattr(generator, "file_name", None), getattr(generator, "begin_line", None)
        if isinstance(file, str) and isinstance(begin, int):
            yield f"{file}:{begin + line}"


_EVERY = "`ligerdiag.in_place.call_in_place` works with every version"


_OLDER = f"(jax-triton before 0.4 takes `out_shape`, and no Ref; {{version}} is installed: {_EVERY})"


_NEWER = (
    "(since jax-triton 0.4 an aliased output is no parameter of the kernel; {version} is installed:"
    f" {_EVERY}; drop `input_output_aliases`, and name the operand in `written`)"
)


_UNFIT = "(jax-triton {version} does not fit JAX {jax}: `pip install 'ligerdiag[jax-triton]'` installs one that does)"


_REFUSALS = (
    "missing 1 required keyword-only argument: 'out_shape'",
    "rule implemented for primitive: triton_kernel_call",
)


def explain_generation(fault: BaseException) -> str:
    """Returns a clause in parentheses that says for which version of jax-triton the call is written. Returns an empty
    string if the exception has another cause.
    """
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
    """Yields the frames of jax-triton's function `triton_call` in the traceback of the exception."""
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
