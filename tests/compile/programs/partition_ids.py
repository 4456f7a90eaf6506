"""Runs a program on eight CPU devices in a custom order; each shard of its output holds the partition id that wrote it.
Prints each shard.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
os.environ |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ligerdiag.artifacts.call_records import compute_placements


def main() -> None:
    devices = np.array(jax.devices())[[5, 2, 7, 0, 3, 6, 1, 4]]
    mesh = Mesh(devices.reshape(2, 4), ("a", "b"))

    @jax.shard_map(mesh=mesh, in_specs=P(("b", "a")), out_specs=P(("b", "a")))
    def number(x):
        # of an axis: partition_id // stride % size, so of both: partition_id
        return x * 0 + jax.lax.axis_index("a") * 4 + jax.lax.axis_index("b")

    spec = jax.ShapeDtypeStruct((16,), np.int32, sharding=NamedSharding(mesh, P(("b", "a"))))
    compiled = jax.jit(number).lower(spec).compile()
    out = np.asarray(compiled(jax.device_put(np.zeros(16, np.int32), spec.sharding)))
    (placement,) = compute_placements([(16,)], [compiled.output_shardings], tuple(mesh.devices.flat))
    print(json.dumps({
        "partition_id": "partition-id" in compiled.as_text(),
        "ids": [sorted(set(out[start:stop].tolist())) for ((start, stop),) in placement.shards],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
