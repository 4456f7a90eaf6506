"""Run as a script with a folder: compiles collectives for 8 host devices, and writes each module with its numbers.

The script needs the variables of ENVIRONMENT, which JAX reads when it starts.

`NAME.pb` is the partitioned HloModuleProto, `NAME.npz` the input `in_D` and outputs `out_D_K` of partition D.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ENVIRONMENT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
LINE = ((8,), ("a",))
GRID = ((4, 2), ("a", "b"))
CUBE = ((2, 2, 2), ("a", "b", "c"))
RING = [(d, (d + 1) % 8) for d in range(8)]

PROGRAMS: Mapping[str, tuple[tuple[tuple[int, ...], tuple[str, ...]], Callable[[Any], Any]]] = {
    "sum_line": (LINE, lambda x: lax.psum(x, "a")),
    "sum_first_axis": (GRID, lambda x: lax.psum(x, "a")),
    "sum_second_axis": (GRID, lambda x: lax.psum(x, "b")),
    "sum_outer_axes": (CUBE, lambda x: lax.psum(x * 3, ("a", "c"))),
    "max_middle_axis": (CUBE, lambda x: lax.pmax(x, "b")),
    "sum_of_two": (GRID, lambda x: lax.psum((x, x[0] * 2), ("a", "b"))),
    "sum_in_groups": (LINE, lambda x: lax.psum(x, "a", axis_index_groups=[[0, 3, 5, 6], [1, 2, 4, 7]])),
    "gather_rows": (LINE, lambda x: lax.all_gather(x, "a", axis=0, tiled=True)),
    "gather_columns": (GRID, lambda x: lax.all_gather(x, "b", axis=1, tiled=True)),
    "gather_both": (GRID, lambda x: lax.all_gather(x, ("a", "b"), axis=0, tiled=True)),
    "gather_both_swapped": (GRID, lambda x: lax.all_gather(x, ("b", "a"), axis=0, tiled=True)),
    "gather_untiled": (CUBE, lambda x: lax.all_gather(x, ("c", "a"), axis=1)),
    "gather_in_groups": (
        LINE,
        lambda x: lax.all_gather(x, "a", axis_index_groups=[[3, 0, 5, 6], [1, 7, 4, 2]], tiled=True),
    ),
    "scatter_rows": (GRID, lambda x: lax.psum_scatter(x, "a", scatter_dimension=0, tiled=True)),
    "scatter_columns": (GRID, lambda x: lax.psum_scatter(x, "b", scatter_dimension=1, tiled=True)),
    "swap": (GRID, lambda x: lax.all_to_all(x, "a", split_axis=0, concat_axis=1, tiled=True)),
    "swap_line": (LINE, lambda x: lax.all_to_all(x, "a", split_axis=0, concat_axis=0, tiled=True)),
    "send_on": (LINE, lambda x: lax.ppermute(x, "a", RING)),
    "send_to_some": (GRID, lambda x: lax.ppermute(x, "a", [(0, 1), (1, 3)])),
    "where_am_i": (GRID, lambda x: x + lax.axis_index("a") * 10 + lax.axis_index("b")),
    "sum_of_halves": (GRID, lambda x: lax.psum(x.astype(jnp.bfloat16), "a")),
    "sum_of_integers": (GRID, lambda x: lax.psum((x * 7).astype(jnp.int32), "b")),
    "one_after_the_other": (
        GRID,
        lambda x: lax.all_gather(lax.psum_scatter(jnp.exp(x * 0.1), "a", tiled=True) * 2, "b", axis=1, tiled=True),
    ),
}


def write_programs(folder: Path) -> None:
    for name, ((sizes, axes), function) in PROGRAMS.items():
        devices = np.array(jax.devices()).reshape(sizes)
        mesh = Mesh(devices, axes)
        spec = P(axes)
        mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=P(axes), check_vma=False)
        full = np.random.default_rng(0).standard_normal((8 * 16, 4)).astype(np.float32)
        x = jax.device_put(full, NamedSharding(mesh, spec))
        compiled = jax.jit(mapped).lower(x).compile()
        (module,) = compiled.runtime_executable().hlo_modules()
        (folder / f"{name}.pb").write_bytes(module.as_serialized_hlo_module_proto())
        numbers: dict[str, np.ndarray] = {}
        for array, prefix in [(x, "in"), *[(o, f"out{k}") for k, o in enumerate(jax.tree.leaves(compiled(x)))]]:
            for shard in array.addressable_shards:
                # NumPy's files have no bfloat16
                numbers[f"{prefix}_{shard.device.id}"] = np.asarray(shard.data.astype(jnp.float32))
        np.savez(folder / f"{name}.npz", **numbers)


if __name__ == "__main__":
    write_programs(Path(sys.argv[1]))
