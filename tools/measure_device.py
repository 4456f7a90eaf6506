"""Runs cases on the GPUs of this machine and holds the static verdict on the device's own artifact against the result.

    python tools/measure_device.py OUT_DIRECTORY seed_flce bf16_flce ...

For each case: compile for the real device (autotuning as it comes), keep the artifact, draw the arguments, run three times,
compare every output with the case's plain jnp reference at highest matmul precision by relative error in norm, and print a
table. `results.json` and one .tar.xz with the artifacts' HLO are left in OUT_DIRECTORY.
"""

import importlib
import json
import sys
import tarfile
import tempfile
import time
import traceback
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sys.path.insert(0, str(Path(__file__).parents[1]))

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.case import Arg, Case
from ligerdiag.compile.arguments import draw_arguments
from ligerdiag.compile.as_written import convert_as_written
from ligerdiag.compile.names import compute_output_names
from ligerdiag.compile.tags import tag_operations
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import load_hlo, parse_module
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.hlo.xla_pb2 import HloModuleProto

RUNS = 3
OPTIONS = {"xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": False}


def main() -> None:
    out, names = Path(sys.argv[1]), sys.argv[2:]
    out.mkdir(parents=True, exist_ok=True)
    device = jax.devices()[0]
    say(
        f"{device.device_kind} x{len(jax.devices())}, jax {jax.__version__}, {_version('jax-triton')}, {_version('triton')}"
    )
    results: list[dict[str, Any]] = []
    with tarfile.open(out / "artifacts.tar.xz", "w:xz") as archive:
        for name in names:
            for case in _load_cases(name):
                if prod(case.mesh.values()) > len(jax.devices()):
                    say(f"{case.id}: skipped, needs {prod(case.mesh.values())} devices")
                    continue
                try:
                    results.append(measure(case, archive))
                except Exception as error:
                    traceback.print_exc()
                    results.append({"id": case.id, "error": f"{type(error).__name__}: {error}"[:500]})
                say(render_row(results[-1]))
                (out / "results.json").write_text(json.dumps(results, indent=1))


def say(line: str) -> None:
    """One line on standard output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def measure(case: Case, archive: tarfile.TarFile) -> dict[str, Any]:
    """Compile, analyse, run and compare one case."""
    started = time.time()
    shardings = _compute_shardings(case)
    arguments = jax.device_put(draw_arguments(case), shardings)
    specs = jax.tree.map(lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s), arguments, shardings)
    lowered = jax.jit(case.function, keep_unused=True).trace(*specs).lower()
    module = lowered.compiler_ir("stablehlo")
    tag_operations(module)
    program = convert_as_written(module)
    outputs = compute_output_names(lowered.out_info)
    with tempfile.TemporaryDirectory() as directory:
        compiled = lowered.compile(compiler_options=OPTIONS | {"xla_dump_to": directory})
        context = analyse(program, Path(directory), outputs)
        _keep(archive, case, program, Path(directory))
    with jax.default_matmul_precision("highest"):
        expected = jax.tree.leaves(jax.jit(case.reference)(*jax.device_put(draw_arguments(case), shardings)))
    errors: list[list[float]] = []
    for _ in range(RUNS):
        fresh = jax.device_put(draw_arguments(case), shardings)  # a kernel may overwrite its arguments
        actual = jax.tree.leaves(compiled(*fresh))
        errors.append([relative_error(a, e) for a, e in zip(actual, expected, strict=True)])
    return {
        "id": case.id,
        "outputs": {
            name: {"errors": [run[n] for run in errors], "static": context.outputs[name].verdict.value}
            for n, name in enumerate(outputs)
        },
        "seconds": round(time.time() - started, 2),
    }


def relative_error(actual: jax.Array, expected: jax.Array) -> float:
    """||actual - expected|| / ||expected|| in f32; NaN where either holds NaN."""
    a, e = actual.astype(jnp.float32), expected.astype(jnp.float32)
    return float(jnp.linalg.norm((a - e).ravel()) / jnp.linalg.norm(e.ravel()))


def analyse(program: bytes, dump: Path, outputs: tuple[str, ...]) -> Context:
    """Static verdict on the device's own artifact."""
    proto = HloModuleProto()
    proto.ParseFromString(program)
    optimized, buffers = load_hlo(find_optimized(dump))
    assert buffers is not None
    return compute_context(
        program=parse_module(proto),
        optimized=optimized,
        buffers=buffers,
        effects_of=_compute_effects,
        output_names=outputs,
        traced_calls=(),
    )


def render_row(result: dict[str, Any]) -> str:
    """One line: each output's worst relative error and the static verdict."""
    if "error" in result:
        return f"{result['id']}: {result['error']}"
    cells = [f"{name} {max(o['errors']):.2e} {o['static']}" for name, o in result["outputs"].items()]
    return f"{result['id']}: {' | '.join(cells)} ({result['seconds']} s)"


def _compute_effects(call: HloInstruction) -> Any:
    return compute_call_effects(
        target=call.proto.custom_call_target,
        backend_config=call.proto.backend_config,
        operands=len(call.operands),
        outputs=sum(1 for _ in iterate_leaves(call.shape)),
    )


def find_optimized(dump: Path) -> Path:
    """The largest optimized module of the dump: the program itself."""
    found = sorted(dump.glob("*jit_*gpu_after_optimizations.hlo.pb"), key=lambda path: path.stat().st_size)
    return found[-1]


def _keep(archive: tarfile.TarFile, case: Case, program: bytes, dump: Path) -> None:
    (dump / "unoptimized.hlo.pb").write_bytes(program)
    folder = "".join(c if c.isalnum() or c in "-_." else "_" for c in case.id)
    archive.add(dump / "unoptimized.hlo.pb", f"{folder}/unoptimized.hlo.pb")
    archive.add(find_optimized(dump), f"{folder}/optimized.hlo.pb")
    for thunks in dump.glob("*jit_*thunk_sequence_after_thunk_passes.txt"):
        archive.add(thunks, f"{folder}/thunks.txt")


def _compute_shardings(case: Case) -> tuple[Any, ...]:
    sizes = dict(case.mesh) or {"x": 1}
    devices = np.array(jax.devices()[: prod(sizes.values())]).reshape(tuple(sizes.values()))
    mesh = Mesh(devices, tuple(sizes))
    return jax.tree.map(
        lambda arg: NamedSharding(mesh, PartitionSpec(*arg.partition)), case.args, is_leaf=lambda a: isinstance(a, Arg)
    )


def _load_cases(name: str) -> tuple[Case, ...]:
    module = importlib.import_module(f"cases.{name}")
    return module.CASES if hasattr(module, "CASES") else (module.CASE,)


def _version(package: str) -> str:
    from importlib.metadata import version

    return f"{package} {version(package)}"


if __name__ == "__main__":
    main()
