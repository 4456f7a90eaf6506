"""The ids of the running device: one replica, many partitions."""

from collections.abc import Mapping

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.opcodes.scope import Evaluate, Scope, Value


def _get_partition(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return np.array(scope.partition, np.uint32)


def _get_replica(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return np.array(0, np.uint32)  # JAX partitions programs, it never replicates them


IDENTITY: Mapping[str, Evaluate] = {"partition-id": _get_partition, "replica-id": _get_replica}
