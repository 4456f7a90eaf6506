"""Finds the kernel calls in a traced program, and evaluates the program one equation after another, so that each call can be
run on the operands that it gets in the program.

An evaluation enters what JAX inlines anyway (`jit`, `checkpoint`, custom derivatives), the chosen branch of a `cond`, and
the first step of a loop. It does not enter a `shard_map` or a `custom_partitioning`: calls inside of these are not run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import jax
from jax.extend import core as jex_core

from ligerdiag.compile.lowering.kernel_calls import PRIMITIVES, list_subprograms
from ligerdiag.compile.lowering.other_kernels import OTHER_PRIMITIVES
from ligerdiag.errors import describe_fault

FFI = "ffi_call"
KERNELS = (*PRIMITIVES, FFI)
"""Names of the primitives whose calls are run and checked."""
_CLOSED = ("shard_map", "custom_partitioning")

type Visit = Callable[[Any, Sequence[Any]], None]
"""A function that is called with the equation of a kernel call and its operands, before the call is made."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelEquation:
    """The equation of a kernel call in a traced program, with its position there."""

    jaxpr: Any
    """The jaxpr that contains the equation."""
    equation: Any
    around: tuple["KernelEquation", ...]
    """The equations that contain the call in a sub-program, such as the body of a `scan`; innermost first."""


def iterate_kernel_equations(jaxpr: Any) -> Iterator[KernelEquation]:
    """Yields each kernel call in a jaxpr and its sub-programs once."""
    seen: set[int] = set()

    def walk(inner: Any, around: tuple[KernelEquation, ...]) -> Iterator[KernelEquation]:
        if id(inner) in seen:
            return
        seen.add(id(inner))
        for equation in inner.eqns:
            found = KernelEquation(inner, equation, around)
            if equation.primitive.name in KERNELS:
                yield found
                continue
            for sub in list_subprograms(equation):
                yield from walk(sub, (found, *around))

    yield from walk(jaxpr, ())


@dataclass(slots=True, eq=False)
class EagerEvaluation:
    """Evaluates a traced program once, equation by equation, on arrays of a device."""

    visit: Visit
    visited: set[int] = field(default_factory=set[int])
    """The `id()` of the equation of each kernel call that the evaluation has reached."""
    missed: dict[int, str] = field(default_factory=dict[int, str])
    """Maps the `id()` of a kernel call's equation to the reason why the evaluation could not reach the call."""
    failed: set[int] = field(default_factory=set[int])
    """The keys of `missed` whose calls were not reached because an operation raised an error."""

    def run(self, closed: Any, arguments: Sequence[Any]) -> list[Any]:
        """Evaluates a closed jaxpr and returns its results. Does not catch the errors of its operations."""
        return self._evaluate(closed.jaxpr, closed.consts, arguments)

    def _evaluate(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}

        def read(variable: Any) -> Any:
            return variable.val if isinstance(variable, jex_core.Literal) else values[variable]

        values.update(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            results = self._apply(equation, [read(variable) for variable in equation.invars])
            values.update(zip(equation.outvars, results, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _apply(self, equation: Any, operands: list[Any]) -> Sequence[Any]:
        name = equation.primitive.name
        if name in KERNELS:
            if id(equation) not in self.visited:
                self.visited.add(id(equation))
                self.visit(equation, operands)
            return self._bind(equation, operands)
        inner = [one.equation for sub in list_subprograms(equation) for one in iterate_kernel_equations(sub)]
        if not inner:
            return self._bind(equation, operands)
        params: Mapping[str, Any] = equation.params
        if name in _CLOSED:
            self.missed.update({id(one): f"the call is inside a `{name}`" for one in inner})
            return self._bind(equation, operands)
        match name:
            case "cond":
                chosen = params["branches"][int(operands[0])]
                return self._evaluate(chosen.jaxpr, chosen.consts, operands[1:])
            case "scan":
                self._enter_scan(params, operands)
            case "while":
                self._enter_while(params, operands)
            case _:
                whole = self._find_inlined(params, len(operands), len(equation.outvars))
                if whole is not None:
                    return self._evaluate(*whole, operands)
                self.missed.update({id(one): f"the call is inside a `{name}`" for one in inner})
        return self._bind(equation, operands)

    def _find_inlined(self, params: Mapping[str, Any], operands: int, results: int) -> tuple[Any, Sequence[Any]] | None:
        """Returns the only sub-program that takes the equation's operands and returns its results, and the sub-program's
        constants; None if there is none.
        """
        found: list[tuple[Any, Sequence[Any]]] = []
        for value in params.values():
            if isinstance(value, jex_core.ClosedJaxpr):
                found.append((value.jaxpr, value.consts))
            elif isinstance(value, jex_core.Jaxpr) and not value.constvars:
                found.append((value, ()))
        fitting = [one for one in found if (len(one[0].invars), len(one[0].outvars)) == (operands, results)]
        return fitting[0] if len(fitting) == 1 else None

    def _enter_scan(self, params: Mapping[str, Any], operands: list[Any]) -> None:
        """Evaluates the first step of a scan on copies, for the calls in its body."""
        if not params["length"]:
            return
        kept = _count_kept(params)
        first = params["length"] - 1 if params["reverse"] else 0
        step = [*map(_copy, operands[:kept]), *(array[first] for array in operands[kept:])]
        self._try(params["jaxpr"], step)

    def _enter_while(self, params: Mapping[str, Any], operands: list[Any]) -> None:
        """Evaluates the condition and, if it is true, the first step of a while loop on copies."""
        tests, steps = params["cond_nconsts"], params["body_nconsts"]
        carried = operands[tests + steps :]
        found = self._try(params["cond_jaxpr"], [*map(_copy, (*operands[:tests], *carried))])
        if found and bool(found[0]):
            self._try(params["body_jaxpr"], [*map(_copy, (*operands[tests : tests + steps], *carried))])

    def _try(self, closed: Any, operands: list[Any]) -> list[Any]:
        try:
            return self.run(closed, operands)
        except Exception as fault:
            found = [id(one.equation) for one in iterate_kernel_equations(closed.jaxpr)]
            inner = [one for one in found if one not in self.visited]
            self.failed.update(inner)
            self.missed.update(dict.fromkeys(inner, f"the loop's first step raises: {describe_fault(fault)}"))
            return []

    def _bind(self, equation: Any, operands: list[Any]) -> Sequence[Any]:
        if equation.primitive.name in OTHER_PRIMITIVES:  # cuTile's has no implementation outside of a `jit`
            library: Any = jax
            return library.jit(partial(equation.primitive.bind, **equation.params))(*operands)
        bound: Any = equation.primitive.get_bind_params(equation.params)
        functions, params = cast("Any", bound if isinstance(bound, tuple) else ((), bound))
        with equation.ctx.manager:
            results = equation.primitive.bind(*functions, *operands, **params)
        return results if equation.primitive.multiple_results else [results]


def _count_kept(params: Mapping[str, Any]) -> int:
    """Returns the number of a scan's operands that each step gets whole: constants and carried values."""
    if "num_consts" in params:
        return params["num_consts"] + params["num_carry"]
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants) + len(carried)


def _copy(value: Any) -> Any:
    """Returns a copy of an array, because a kernel may overwrite it; a Ref unchanged."""
    library: Any = jax
    return library.numpy.copy(value) if isinstance(value, jax.Array) else value
