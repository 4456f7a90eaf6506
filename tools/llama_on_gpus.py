"""Compares a Llama's gradients on the GPUs of this machine, in every mode of the loss, with plain JAX on the same GPUs:

    uv run --extra gpu python -m tools.llama_on_gpus --size 100M --layouts dp fsdp tp

Prints a row for each mode: the verdict on each output by the schedule of the same artifact that ran, and how far the
output is from that of plain JAX, as relative error in norm. Returns 1 if the two disagree: an output is wrong on the
device and not by its verdict, or the other way round. tests/gpu/test_llama_on_two.py has small sizes, which are also
replayed.
"""

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from kernels.llama.config import CONFIGS, Fused
from kernels.llama.grid import MODES, choose_fused, compute_without_optimizer, make_args
from kernels.llama.layout import LAYOUTS
from kernels.llama.step import init_state
from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.artifacts.scratch_folders import write_manifest
from ligerdiag.compile.cases.arguments import build_argument_specs
from ligerdiag.compile.lowering.compile_job import compute_key, make_artifact
from ligerdiag.compile.lowering.lowered_case import LoweredCase, lower_case
from ligerdiag.device.device_worker import build_device_mesh
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.case import Case
from ligerdiag.model.findings import FAR, Verdict
from ligerdiag.model.jobs import CompileRequest, Source
from ligerdiag.toolchains.toolchain import current_toolchain
from tools.train_llama.training import draw_batches

ROOT = Path(__file__).parents[1]
COLUMNS = ("size", "layout", "GPUs", "mode", "verdict", "wrong on the device", "their errors", "other errors", "s")


def judge_layout(size: str, layout: str, devices: int, modes: list[str]) -> bool:
    """Prints the rows of one layout; returns whether verdicts and numbers agree in all of them."""
    config, chosen = CONFIGS[size], LAYOUTS[layout]
    mesh_axes = chosen.split_devices(devices)
    state, *ids = make_args(config, chosen, mesh_axes)
    args = jax.tree.map(_keep, (state["params"], *ids), is_leaf=lambda leaf: hasattr(leaf, "donate"))

    def make_case(fused: Fused, name: str) -> Case:
        function = partial(compute_without_optimizer, config, chosen, fused)
        return Case(name="llama", params=(layout, size, devices, name), function=function, args=args, mesh=mesh_axes)

    plain = make_case(Fused(), "plain")
    mesh = build_device_mesh(plain)
    specs = build_argument_specs(plain, mesh)
    shardings = jax.tree.map(lambda spec: spec.sharding, specs)
    tokens = next(draw_batches(config, 0, mesh_axes["data"], config.context))
    with jax.set_mesh(mesh):
        params = jax.jit(partial(init_state, config=config), out_shardings=None)(jax.random.key(0))["params"]
        arguments = jax.block_until_ready(jax.device_put((params, *tokens), shardings))
        del params
        intended = jax.block_until_ready(jax.jit(plain.function)(*arguments))
    agreed = True
    for mode in modes:
        started = time.perf_counter()
        verdicts, results = run(make_case(choose_fused(mode), mode), mesh, arguments)
        errors = measure_errors(results, intended, mesh)
        del results
        errors = dict(zip(verdicts, errors, strict=True))
        wrong = {name for name, error in errors.items() if not error < FAR}
        misjudged = wrong.symmetric_difference(name for name, verdict in verdicts.items() if verdict.is_wrong)
        agreed &= not misjudged
        judged = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts.values()).items())
        row = (
            *(size, layout, devices, mode, judged, f"{len(wrong)} of {len(errors)}"),
            *(_render_range([errors[name] for name in names]) for names in (wrong, errors.keys() - wrong)),
            f"{time.perf_counter() - started:.0f}",
        )
        _print_row(row)
        for name in sorted(misjudged):
            _print_row((f"**{name}: {verdicts[name]}, relative error {errors[name]:.3g}**",))
    return agreed


def run(case: Case, mesh: Any, arguments: Any) -> tuple[Mapping[str, Verdict], list[Any]]:
    """Compiles the case for the mesh, judges the artifact, and runs it; returns verdicts by output, and outputs."""
    capability = int(str(mesh.devices.flat[0].compute_capability).replace(".", ""))
    toolchain = current_toolchain()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        program: LoweredCase = lower_case(case, "", capability, mesh=mesh)
        request = CompileRequest(
            source=Source(file=str(ROOT / "kernels/llama/grid.py"), root=str(ROOT)),
            case_id=case.id,
            target="device",
            description="",
            compute_capability=0,
            toolchain=toolchain.name,
            versions=toolchain.versions,
            environment={},
            flags={},
            fingerprint="",
            artifacts=str(folder),
            scratch=str(folder / "artifact"),
            not_before=0.0,
        )
        log, artifact = folder / "log", Path(request.scratch)
        log.touch()
        compiled = make_artifact(request, program, compute_key(request, program, {}), log, runs=True)
        write_manifest(artifact)
        inspection = inspect_artifact(load_artifact(artifact), effects_cache=folder / "effects")
        for line in inspection.coverage.not_covered:
            sys.stderr.write(f"{case.id}: not covered: {line}\n")
        results = jax.tree.leaves(jax.block_until_ready(compiled(*arguments)))
        return {name: Verdict(verdict) for name, verdict in inspection.outputs.items()}, results


def measure_errors(results: Any, intended: Any, mesh: Any) -> list[float]:
    """Returns the relative error in norm of each output; infinite for one that is not finite."""

    @jax.jit
    def measure(found: Any, right: Any) -> Any:
        found, right = found.astype(jnp.float32), right.astype(jnp.float32)
        return jnp.linalg.norm((found - right).ravel()) / jnp.linalg.norm(right.ravel())

    with jax.set_mesh(mesh):
        errors = [float(measure(*pair)) for pair in zip(results, jax.tree.leaves(intended), strict=True)]
    return [error if math.isfinite(error) else math.inf for error in errors]


def _keep(arg: Any) -> Any:
    """Returns the same argument, not donated, because every mode takes it."""
    return replace(arg, donate=False)


def _render_range(errors: list[float]) -> str:
    return f"{min(errors):.2g} to {max(errors):.2g}" if errors else ""


def _print_row(cells: Any) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


def main() -> int:
    """Returns the exit code: 0 if all agree."""
    parser = argparse.ArgumentParser(prog="python -m tools.llama_on_gpus", description=str(__doc__).splitlines()[0])
    parser.add_argument("--size", choices=CONFIGS, default="100M")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, metavar="LAYOUT", default=["dp", "fsdp", "tp"])
    parser.add_argument("--modes", nargs="+", choices=MODES, metavar="MODE", default=list(MODES))
    parser.add_argument("--devices", type=int, default=0, help="how many of the GPUs here; by default all")
    options = parser.parse_args()
    devices = options.devices or jax.device_count()
    _print_row(COLUMNS)
    _print_row(["---"] * len(COLUMNS))
    agreed = [judge_layout(options.size, layout, devices, options.modes) for layout in options.layouts]
    return int(not all(agreed))


if __name__ == "__main__":
    sys.exit(main())
