"""Worker side: says what a `triton_call` needs that is written for another generation of jax-triton.

Before 0.4 each output is a pointer parameter of the kernel, an aliased one too, and operands are arrays. Since 0.4 an
aliased output has no parameter of its own, and a Ref says that the kernel overwrites it.
"""

from collections.abc import Iterator
from importlib import metadata
from types import FrameType

_EVERY = "`ligerdiag.in_place.call_in_place` is right with every version"
_OLDER = f"(jax-triton before 0.4 takes `out_shape`, and no Ref; {{version}} is installed: {_EVERY})"
_NEWER = (
    f"(since jax-triton 0.4 an aliased output is no parameter of the kernel; {{version}} is installed: pass a Ref of the"
    f" operand and drop the parameter; {_EVERY})"
)
_REFUSALS = (
    "missing 1 required keyword-only argument: 'out_shape'",
    "rule implemented for primitive: triton_kernel_call",
)


def explain_generation(fault: BaseException) -> str:
    """Returns one clause in parentheses; empty for a fault that has another reason."""
    message = str(fault)
    if isinstance(fault, TypeError | NotImplementedError) and any(refusal in message for refusal in _REFUSALS):
        return _OLDER.format(version=_read_version())
    if isinstance(fault, ValueError) and "kernel parameters are missing an argument" in message:
        aliased = any(frame.f_locals.get("input_output_aliases") for frame in _iterate_calls(fault))
        return _NEWER.format(version=_read_version()) if aliased else ""
    return ""


def _iterate_calls(fault: BaseException) -> Iterator[FrameType]:
    """Yields the frames of `triton_call` on the way to the fault."""
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
