"""Suffix sums as differences of large sums: XLA adds in another order than the program and loses other digits."""

from typing import Any

import jax.numpy as jnp

from kernels.scale.api import scale
from ligerdiag import Arg, Case

TERMS = 1 << 16


def sum_suffixes(x: Any) -> dict[str, Any]:
    terms = scale(x, jnp.float32(1.5), mode="aliased") ** 2
    return {"suffixes": jnp.cumsum(terms)[-64:] - terms.sum(), "total": terms.sum()}


CASE = Case(name="sum_suffixes", function=sum_suffixes, args=(Arg(shape=(TERMS,)),))
