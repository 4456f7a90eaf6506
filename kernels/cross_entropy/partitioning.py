"""A function of rows that XLA's partitioner calls on the rows that a device has, where the arrays are only annotated.

Without it the partitioner, which knows nothing of a custom call, gathers every row on every device. The columns are gathered
all the same where they are split: a row is the kernel's to see whole (`vocabulary_axis` of the fused loss avoids that).
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec


def partition_by_rows(function: Callable[..., Any], rule: str) -> Callable[..., Any]:
    """Returns the function, to be called with arrays that all have the rows as their first dimension, as its results have.

    rule: Shardy's, in which `row` names the first dimension of each array and `column` the other one, if any.
    """

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        rows = NamedSharding(mesh, PartitionSpec(*arguments[0].sharding.spec[:1]))
        same = jax.tree.map(lambda _: rows, (tuple(arguments), tuple(results)))
        return mesh, function, same[1], same[0]

    partitioned = custom_partitioning(function)
    partitioned.def_partition(partition, sharding_rule=rule, need_replication_factors=("column",))
    return partitioned
