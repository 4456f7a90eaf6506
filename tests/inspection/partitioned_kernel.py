"""A kernel in the function of a `custom_partitioning`, which JAX traces once more while XLA compiles."""

from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag import Arg, Case, Draw


def compute(mode: Mode, x: Any, w: Any, targets: Any) -> dict[str, Any]:
    """x: f32[64, 32], targets: i32[64], their rows split over four devices; w: f32[32, 32]."""
    from jax.experimental.custom_partitioning import custom_partitioning
    from jax.sharding import NamedSharding, PartitionSpec

    from kernels.cross_entropy.api import cross_entropy_with_gradient

    def apply(logits: Any, targets: Any) -> Any:
        return cross_entropy_with_gradient(logits, targets, reduction="none", mode=mode)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        del arguments
        rows = NamedSharding(mesh, PartitionSpec(*results[0].sharding.spec[:1]))
        return mesh, apply, (rows, rows), (rows, rows)

    partitioned = custom_partitioning(apply)
    rule = "rows columns, rows -> rows, rows columns"
    partitioned.def_partition(partition, sharding_rule=rule, need_replication_factors=("columns",))
    losses, gradient = partitioned(x @ w, targets)
    return {"losses": losses, "weight": x.T @ gradient}


CASES = tuple(
    Case(
        name="partitioned",
        params=(mode,),
        function=partial(compute, mode),
        args=(
            Arg(shape=(64, 32), partition=("x",)),
            Arg(shape=(32, 32)),
            Arg(shape=(64,), dtype="int32", partition=("x",), draw=Draw(kind="randint", high=32)),
        ),
        mesh={"x": 4},
    )
    for mode in (Mode.ALIASED, Mode.HIDDEN)
)
