"""Finds out which arguments JAX drops, and makes a form of a function from which it drops none.

`jax.jit` drops the arguments that its function never reads, unless it has `keep_unused=True`, and pairs only the others
with outputs if they are donated. The program as written (see `intent`) may read more of them, for example in a kernel
call that JAX drops as well. Both programs need the same parameters, so they are then made with all arguments, of which
only those are donated that JAX keeps: they are paired with outputs as in the user's program.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, Signature
from math import prod
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ligerdiag.compile.cases.arguments import compute_donated, compute_words
from ligerdiag.model.case import Case
from ligerdiag.model.memory import DroppedArgument

_BYTES_OF_WORD = 4
_OTHER = re.compile(r"[^a-zA-Z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class JitForm:
    """A function as it is given to `jax.jit`, with the types of its arguments."""

    function: Callable[..., Any]
    specs: tuple[Any, ...]
    """The arguments, each array replaced by a `jax.ShapeDtypeStruct`."""
    donated: tuple[int, ...]
    """Positions of the donated arguments."""
    keep_unused: bool
    others: dict[str, Any] = field(default_factory=dict[str, Any])
    """Further options of `jax.jit`."""
    takes_arrays: bool = False
    """Whether each array of the case's arguments is an argument of its own."""

    def jit(self) -> Any:
        """Returns the function of `jax.jit`."""
        library: Any = jax
        return library.jit(self.function, keep_unused=self.keep_unused, donate_argnums=self.donated, **self.others)

    def place(self, mesh: Mesh) -> "JitForm":
        """Returns the form for a program without parameters: only a sharding of its outputs tells JAX the devices."""
        return replace(self, others={"out_shardings": NamedSharding(mesh, PartitionSpec())})

    def keep_all(self, kept: Collection[int], names: Sequence[str]) -> "JitForm":
        """Returns a form from which JAX drops no argument, and in which only those of the donated arrays are donated whose
        numbers are in `kept`. names: of all arrays.
        """
        library: Any = jax
        leaves, structure = library.tree.flatten(self.specs)
        function = self.function

        def call(*arrays: Any) -> Any:
            return function(*library.tree.unflatten(structure, arrays))

        identifiers = [f"{_OTHER.sub('_', name)}_{number}" for number, name in enumerate(names)]
        call.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in identifiers])
        call.__name__ = getattr(function, "__name__", call.__name__)
        donated = tuple(number for number in list_donated(self) if number in kept)
        return replace(self, function=call, specs=tuple(leaves), donated=donated, keep_unused=True, takes_arrays=True)


def make_form(case: Case, specs: tuple[Any, ...], mesh: Mesh) -> JitForm:
    """Returns the form in which the user's program has the case's function. specs: of the arguments. Raises InputError if
    the case donates a part of an argument.
    """
    form = JitForm(function=case.function, specs=specs, donated=compute_donated(case), keep_unused=case.keep_unused)
    return form if jax.tree.leaves(specs) else form.place(mesh)


def list_donated(form: JitForm) -> tuple[int, ...]:
    """Returns the numbers of the donated arrays among all arrays of the arguments."""
    found, number = list[int](), 0
    for position, argument in enumerate(form.specs):
        count = len(jax.tree.leaves(argument))
        if position in form.donated:
            found += range(number, number + count)
        number += count
    return tuple(found)


def list_dropped(form: JitForm, names: Sequence[str], kept: Collection[int]) -> tuple[DroppedArgument, ...]:
    """Returns a record of each array that JAX drops. names: of all arrays. kept: numbers of the arrays that JAX keeps."""
    donated = frozenset(list_donated(form))
    return tuple(
        DroppedArgument(argument=name, bytes=_measure(spec), is_donated=number in donated)
        for number, (name, spec) in enumerate(zip(names, jax.tree.leaves(form.specs), strict=True))
        if number not in kept
    )


def _measure(spec: Any) -> int:
    """Returns the bytes of an array on one device."""
    words = compute_words(spec)
    size = _BYTES_OF_WORD if words else spec.dtype.itemsize
    return prod((*spec.sharding.shard_shape(spec.shape), *words)) * size
