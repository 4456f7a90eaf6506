"""Finds the arguments that JAX keeps, and defines the form in which ligerdiag compiles a function.

Without `keep_unused=True`, `jax.jit` drops the arguments that its function never reads. Of the donated arguments, JAX pairs
only those that it keeps with outputs. ligerdiag needs all arguments as parameters: the program as written (see `intent`) may
read an argument in a kernel call that JAX drops as well. So ligerdiag keeps all arguments and donates only those that JAX
keeps; each of these then gets the same output as in the user's program. An unread parameter changes nothing else; the memory
figures leave it out.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ligerdiag.compile.cases.arguments import compute_donated
from ligerdiag.compile.cases.stablehlo_program import StableHloProgram
from ligerdiag.model.case import Case

_OTHER = re.compile(r"[^a-zA-Z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class JitForm:
    """A function in the form that `jax.jit` compiles, with the types of its arguments and its donations."""

    function: Callable[..., Any]
    specs: tuple[Any, ...]
    """The arguments, each array replaced by a `jax.ShapeDtypeStruct`."""
    donated: tuple[int, ...]
    """Positions of the donated arguments."""
    results: Any = None
    """The shardings of the results; None if XLA chooses them."""
    takes_arrays: bool = False
    """Whether each array of the case's arguments is an argument of its own."""

    def jit(self) -> Any:
        """Returns the jitted function. It keeps all arguments, even those that the function does not read."""
        library: Any = jax
        placed: Any = {} if self.results is None else {"out_shardings": self.results}
        return library.jit(self.function, keep_unused=True, donate_argnums=self.donated, **placed)

    def donate_only(self, kept: Collection[int], names: Sequence[str]) -> "JitForm":
        """Returns a form of the function that donates only the arrays in `kept`. In this form, each array is an
        argument of its own.

        kept: numbers of arrays among all arrays of the arguments; an array that was not donated before is not donated
        afterwards either. names: the names of all arrays.
        """
        library: Any = jax
        leaves, structure = library.tree.flatten(self.specs)
        function = self.function

        def call(*arrays: Any) -> Any:
            return function(*library.tree.unflatten(structure, arrays))

        identifiers = [f"{_OTHER.sub('_', name)}_{number}" for number, name in enumerate(names)]
        call.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in identifiers])
        call.__name__ = getattr(function, "__name__", call.__name__)
        donated = tuple(number for number in list_donated(self.specs, self.donated) if number in kept)
        return replace(self, function=call, specs=tuple(leaves), donated=donated, takes_arrays=True)


def make_form(case: Case, specs: tuple[Any, ...], mesh: Mesh) -> JitForm:
    """Returns the function of the case in a form that donates all donated arguments of the case. Raises InputError if
    the case donates only a part of an argument.

    specs: the types of the arguments. For a StableHLO module, the module itself says which arguments it donates and how
    its arguments and results are split over the mesh.
    """
    # without arguments, only a sharding of the outputs tells JAX the devices
    if isinstance(case.function, StableHloProgram):
        written = case.function
        placed = written.place_results(mesh) if written.is_sharded or not specs else None
        return JitForm(function=written, specs=written.free_specs(specs), donated=(), results=placed)
    placed = None if jax.tree.leaves(specs) else NamedSharding(mesh, PartitionSpec())
    return JitForm(function=case.function, specs=specs, donated=compute_donated(case), results=placed)


def list_donated(specs: Sequence[Any], positions: Collection[int]) -> tuple[int, ...]:
    """Returns the numbers of the donated arrays, counted over all arrays of the arguments.

    positions: the positions of the donated arguments.
    """
    found, number = list[int](), 0
    for position, argument in enumerate(specs):
        count = len(jax.tree.leaves(argument))
        if position in positions:
            found += range(number, number + count)
        number += count
    return tuple(found)
