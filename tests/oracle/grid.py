"""Runs programs of a kernel's grid in Triton's interpreter: any of them, in any order, on any bytes.

Programs are numbered as the interpreter runs them: the last dimension of the grid changes fastest. The interpreter runs
a grid of as many programs as are requested, and each of them gets its position in the real grid. An operation that the
interpreter lacks, or computes differently from a GPU, raises NotCoveredError: see `narrow_floats`.
"""

import importlib
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ligerdiag.replay.ops.scope import Array, NotCoveredError
from tests.oracle.host_array import HostArray
from tests.oracle.launch import Constant, KernelLaunch, Scalar
from tests.oracle.narrow_floats import mind_narrow_floats, override

MESSAGE_LENGTH = 300

_SCALARS = {
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
    "fp32": np.float32,
    "fp64": np.float64,
}
_INTEGERS = {"i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Observations of a run of programs."""

    atomics: bool
    """Whether a program used an atomic operation: the order may then affect the rounding."""


def count_programs(launch: KernelLaunch) -> int:
    """Returns the number of programs in the launch's grid."""
    return math.prod(launch.grid)


def run_programs(
    launch: KernelLaunch,
    kernel: Any,
    buffers: Sequence[Array],
    programs: Sequence[int] | None = None,
    *,
    round_to_nearest: bool = False,
    atomics: bool = True,
) -> Ran:
    """Runs the programs with these numbers, one after the other; all of the grid, first to last, where None.

    kernel: its function. buffers: operands, then outputs, flat; they are overwritten. With `atomics` false the
    first atomic operation ends the run with AtomicsError. Raises NotCoveredError.
    """
    if len(buffers) != launch.operands + launch.outputs:
        raise NotCoveredError(
            f"kernel `{launch.kernel}`: {len(buffers)} buffers for {launch.operands} operands and {launch.outputs} outputs"
        )
    if not count_programs(launch):
        raise NotCoveredError(f"kernel `{launch.kernel}`: an empty grid")
    numbers = range(count_programs(launch)) if programs is None else programs
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    arguments = _make_pointers_and_scalars(launch, interpreter, kernel, buffers)
    constants = _make_constants(launch, interpreter, kernel)
    seen: list[bool] = []
    with (
        np.errstate(all="ignore"),
        _programs_of(interpreter, launch.grid, numbers),
        _patched_once(interpreter),
        _watched_atomics(interpreter, seen, atomics),
        mind_narrow_floats(interpreter, round_to_nearest=round_to_nearest),
    ):
        try:
            kernel.run(grid=(len(numbers),), warmup=False, **arguments, **constants)
        except Exception as fault:
            raise _explain(launch, fault) from fault
    return Ran(atomics=bool(seen))


class AtomicsError(Exception):
    """An atomic operation although none is allowed."""


def _explain(launch: KernelLaunch, fault: BaseException) -> BaseException:
    """Returns the innermost cause: an error inside of a device function is wrapped once for each call."""
    while type(fault).__name__ == "InterpreterError" and fault.__cause__ is not None:
        fault = fault.__cause__
    if isinstance(fault, AtomicsError | MemoryError):
        return fault
    what = " ".join(str(fault).split())[:MESSAGE_LENGTH]
    if not isinstance(fault, NotCoveredError):
        what = f"{type(fault).__name__}: {what}" if what else type(fault).__name__
    return NotCoveredError(f"kernel `{launch.kernel}`: {what}")


def _make_pointers_and_scalars(
    launch: KernelLaunch, interpreter: Any, kernel: Any, buffers: Sequence[Array]
) -> Mapping[str, Any]:
    """Returns the arguments by the names of the kernel's parameters."""
    names: Sequence[str] = kernel.arg_names
    arguments = {names[scalar.position]: _make_scalar(launch, scalar, interpreter) for scalar in launch.scalars}
    for position, buffer in zip(launch.pointers, buffers, strict=True):
        if position is not None:
            arguments[names[position]] = HostArray(buffer, interpreter.tl)
    return arguments


def _make_scalar(launch: KernelLaunch, scalar: Scalar, interpreter: Any) -> Any:
    """jax-triton compiles a scalar that is 1 into the kernel; a Python float arrives as an fp64, other than in Triton."""
    language = interpreter.tl
    if scalar.value == 1:
        return language.constexpr(1)
    if scalar.type not in _SCALARS:
        raise NotCoveredError(f"kernel `{launch.kernel}`: a scalar of type {scalar.type}")
    kind = language.dtype(_INTEGERS.get(scalar.type, scalar.type))
    return language.tensor(interpreter.TensorHandle(np.array([scalar.value], _SCALARS[scalar.type]), kind), kind)


def _make_constants(launch: KernelLaunch, interpreter: Any, kernel: Any) -> Mapping[str, Any]:
    """A constant is one to jax-triton whether or not the parameter is annotated so; to the interpreter only if it is."""
    annotated = interpreter.GridExecutor(kernel.fn, kernel.arg_names, (1,)).constexprs
    return {name: _make_constant(value, name in annotated, interpreter.tl) for name, value in launch.constants.items()}


def _make_constant(value: Constant, annotated: bool, language: Any) -> Any:
    if isinstance(value, Mapping):
        return language.dtype(value["dtype"])
    if isinstance(value, int) and not annotated:
        return language.constexpr(value)
    return value


@contextmanager
def _programs_of(interpreter: Any, grid: tuple[int, int, int], numbers: Sequence[int]) -> Generator[None]:
    """See 2 above."""
    builder = interpreter.interpreter_builder
    _, height, depth = grid

    def set_grid_dim(*_: int) -> None:
        builder.grid_dim = grid

    def set_grid_idx(number: int, *_: int) -> None:
        row, z = divmod(int(numbers[number]), depth)
        builder.grid_idx = (row // height, row % height, z)

    with override(builder, set_grid_dim=set_grid_dim, set_grid_idx=set_grid_idx):
        yield


@contextmanager
def _patched_once(interpreter: Any) -> Generator[None]:
    """Patches `triton.language` once and undoes it at the end. The interpreter would patch it again for every call of a
    device function, `tl.sum` among them, and spend most of a small program's time on this. Also skips its check for
    integer overflow, which computes everything twice and then, unless it debugs, drops the result.
    """
    builder, patch, patch_tensor = (
        interpreter.interpreter_builder,
        interpreter._patch_lang,
        interpreter._patch_lang_tensor,
    )
    seen: set[int] = set()
    patched: set[int] = set()
    scopes: list[Any] = []

    def patch_once(function: Any) -> Any:
        variables = function.__globals__
        if id(variables) not in seen:
            seen.add(id(variables))
            languages = {id(v) for v in variables.values() if v is interpreter.tl or v is interpreter.tl.core}
            if not languages or not languages <= patched:
                patched.update(languages)
                scopes.append(patch(function))
        return interpreter._LangPatchScope()

    def patch_tensor_too(tensor: Any, scope: Any) -> None:
        # Triton 3.6 converts arrays of one element by int(), which NumPy no longer accepts since 2.5.
        def read_index(self: Any) -> int:
            return int(self.handle.data.item())

        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", read_index)

    with ExitStack() as stack:
        stack.enter_context(override(interpreter, _patch_lang=patch_once, _patch_lang_tensor=patch_tensor_too))
        if not builder.options.debug:
            stack.enter_context(override(builder, options=replace(builder.options, sanitize_overflow=False)))
        try:
            yield
        finally:
            for scope in reversed(scopes):
                scope.restore()


@contextmanager
def _watched_atomics(interpreter: Any, seen: list[bool], allowed: bool) -> Generator[None]:
    builder = interpreter.interpreter_builder

    def watch(original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:
            if not allowed:
                raise AtomicsError
            seen[:] = [True]
            return original(*args)

        return watched

    def refuse(*_: Any) -> Any:
        raise NotCoveredError("it waits for another program of the grid")

    names = (
        "create_atomic_rmw",
        "create_atomic_cas",
        "create_atomic_load",
        "create_atomic_store",
    )  # the last two since 3.8
    watched = {name: watch(getattr(builder, name)) for name in names if hasattr(builder, name)}
    with override(builder, create_atomic_poll=refuse, **watched):
        yield
