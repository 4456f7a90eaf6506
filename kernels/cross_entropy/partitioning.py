"""Makes a function of rows that XLA's partitioner calls on each device's own rows if the arrays only have shardings.

Without such a partitioning, XLA's partitioner, which knows nothing of a custom call, gathers every row on every device. If
the columns are split, they are still gathered, because the kernel needs whole rows (`vocabulary_axis` of the fused loss
avoids that).
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec


def partition_by_rows(function: Callable[..., Any], rule: str) -> Callable[..., Any]:
    """Returns the function with a partitioning by rows; rows are the first dimension of all its arguments and results.

    rule: the function's sharding rule in Shardy's notation, in which `row` names the first dimension of each array, and
    `column` the second dimension of an array with two, as in `row column, row -> row`.
    """

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        rows = NamedSharding(mesh, PartitionSpec(*arguments[0].sharding.spec[:1]))
        same = jax.tree.map(lambda _: rows, (tuple(arguments), tuple(results)))
        return mesh, function, same[1], same[0]

    partitioned = custom_partitioning(function)
    partitioned.def_partition(partition, sharding_rule=rule, need_replication_factors=("column",))
    return partitioned
