"""Random programs on the GPU of this machine: the static verdict on each artifact against what the hardware computes.

    python tools/fuzz_device.py OUT_DIRECTORY FIRST_SEED COUNT

Prints every disagreement and a summary; leaves `fuzz-FIRST_SEED.json` and all artifacts in OUT_DIRECTORY.
"""

import json
import sys
import tarfile
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[1]))

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.compile.cases.arguments import compute_output_names
from ligerdiag.compile.lowering.intent import convert_as_written
from ligerdiag.compile.lowering.tags import tag_operations
from ligerdiag.effects.access import CallEffects
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import load_hlo, parse_module
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.hlo.xla_pb2 import HloModuleProto
from ligerdiag.model.findings import Verdict
from tests.property.random_programs import SIZE, make_program

OPTIONS = {"xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": False}
DRAWS = 4
RIGHT = 2e-2
"""Relative error in norm up to which an output counts as right: bf16 rounding and tf32 products stay below it."""


def main() -> None:
    out, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    tally: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    with tarfile.open(out / f"artifacts-{first}.tar.xz", "w:xz") as archive:
        for seed in range(first, first + count):
            try:
                run_seed(seed, archive, tally, rows)
            except Exception as error:
                tally["error"] += 1
                rows.append({"seed": seed, "error": f"{type(error).__name__}: {error}"[:300]})
                traceback.print_exc()
            (out / f"fuzz-{first}.json").write_text(json.dumps({"tally": tally, "rows": rows}, indent=1))
    sys.stdout.write(f"seeds {first}..{first + count - 1}: {dict(tally)}\n")


def run_seed(seed: int, archive: tarfile.TarFile, tally: Counter[str], rows: list[dict[str, Any]]) -> None:
    """Compile, judge and run one program, and count agreement per output."""

    def draw(number: int = 0) -> tuple[jax.Array, jax.Array]:
        x, y = jax.random.normal(jax.random.key(seed * DRAWS + number), (2, SIZE, SIZE))
        return x, y

    lowered = jax.jit(make_program(seed, hidden=True), keep_unused=True).trace(*draw()).lower()
    module = lowered.compiler_ir("stablehlo")
    tag_operations(module)
    program = convert_as_written(module)
    names = compute_output_names(lowered.out_info)
    with tempfile.TemporaryDirectory() as directory:
        compiled = lowered.compile(compiler_options=OPTIONS | {"xla_dump_to": directory})
        context = analyse(program, find_optimized(Path(directory)), names)
        intended = jax.jit(make_program(seed, hidden=False))
        errors = [
            [
                float(jnp.linalg.norm((a - e).ravel()) / (jnp.linalg.norm(e.ravel()) + 1e-6))
                for a, e in zip(jax.tree.leaves(compiled(*draw(n))), jax.tree.leaves(intended(*draw(n))), strict=True)
            ]
            for n in range(DRAWS)
        ]
        for name, *drawn in zip(names, *errors, strict=True):
            error = max(drawn)  # a branch that is not taken shows nothing: several draws
            verdict = context.verdicts.outputs[name].verdict
            is_right = error <= RIGHT
            agrees = is_right == (verdict in (Verdict.FRESH, Verdict.LATENT))
            tally[f"{verdict.value} {'right' if is_right else 'wrong'}"] += 1
            rows.append({"seed": seed, "output": name, "verdict": verdict.value, "error": error})
            if not agrees:
                sys.stdout.write(f"seed {seed} {name}: {verdict.value}, relative error {error:.3g}\n")
        (Path(directory) / "program.hlo.pb").write_bytes(program)
        optimized = find_optimized(Path(directory))
        archive.add(Path(directory) / "program.hlo.pb", f"{seed}/program.hlo.pb")
        archive.add(optimized, f"{seed}/optimized.hlo.pb")


def analyse(program: bytes, optimized: Path, outputs: tuple[str, ...]) -> Context:
    """Returns the static analysis of the device's own artifact."""
    module, buffers = load_hlo(optimized)
    assert buffers is not None
    return compute_context(
        program=parse_module(HloModuleProto.FromString(program)),
        optimized=module,
        buffers=buffers,
        effects_of=_compute_effects,
        output_names=outputs,
        traced_calls=(),
    )


def find_optimized(dump: Path) -> Path:
    """Returns the largest optimized module of the dump: the program itself."""
    return max(dump.glob("*jit_*gpu_after_optimizations.hlo.pb"), key=lambda path: path.stat().st_size)


def _compute_effects(call: HloInstruction) -> CallEffects:
    return compute_call_effects(
        target=call.proto.custom_call_target,
        backend_config=call.proto.backend_config,
        operands=len(call.operands),
        outputs=sum(1 for _ in iterate_leaves(call.shape)),
    )


if __name__ == "__main__":
    main()
