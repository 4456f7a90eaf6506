"""A declared write that XLA breaks (docs/reports/dynamic-slice-fusion.md).

The kernel overwrites a Ref, which is right by itself. XLA fuses its call with the slices around it, hands it addresses in
larger arrays instead of copies, and forgets that the declared output has to be the operand.

- `stacked`: a scan stacks what the kernel leaves of each row
- `halves`: the kernel gets the halves of one array, which is read as a whole, too
- `held`: as both, with barriers between the kernel and the slices
"""

from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case

ROWS, COLUMNS = 4, 128
EXPECTED: dict[str, Any] = {
    "stacked": {"contents": "stale", "*": "fresh"},
    "halves": {"first": "stale", "second": "stale", "*": "fresh"},
    "held": "fresh",
}


def compute(variant: str, x: Any) -> dict[str, Any]:
    """Returns twice the sines of x, as the kernel gives them back and as it leaves them in its operand."""
    import jax
    import jax.numpy as jnp

    from kernels.mosaic_scale.api import double

    apply = partial(double, way="stores", mode=Mode.ALIASED)
    keep = jax.lax.optimization_barrier if variant == "held" else lambda value: value
    sines = jnp.sin(x.reshape(-1))
    found = {}
    if variant != "halves":
        rows = jnp.sin(x)
        _, (doubled, contents) = jax.lax.scan(lambda _, row: (0, tuple(map(keep, apply(row + 1)))), 0, rows)
        found |= {"doubled": doubled.sum(0), "contents": contents}
    if variant != "stacked":
        half = sines.size // 2
        given, first = apply(keep(sines[:half]))
        more, second = apply(keep(sines[half:]))
        found |= {"sum": given + more, "first": first, "second": second, "whole": sines * 3}
    return found


def compute_reference(variant: str, x: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax.numpy as jnp

    sines = jnp.sin(x.reshape(-1))
    first, second = jnp.split(2 * sines, 2)
    stacked = {"doubled": (2 * (jnp.sin(x) + 1)).sum(0), "contents": 2 * (jnp.sin(x) + 1)}
    halves = {"sum": first + second, "first": first, "second": second, "whole": sines * 3}
    return {"stacked": stacked, "halves": halves, "held": stacked | halves}[variant]


CASES = tuple(
    Case(
        name="fused_alias",
        function=partial(compute, variant),
        args=(Arg(shape=(ROWS, COLUMNS)),),
        params=(variant,),
        expected=expected,
        expected_rules=() if variant == "held" else ("LD022",),
        reference=partial(compute_reference, variant),
        about="a declared write whose output XLA puts into other bytes",
    )
    for variant, expected in EXPECTED.items()
)
