"""Runs cases on a GPU whose machine lacks the toolchain that lowers them.

    python -m tools.exported make FOLDER CASES      on a machine with that toolchain, without a GPU
    python -m tools.exported run FOLDER             on the GPU, with JAX and NumPy alone

A Triton call's payload contains the compiled kernel, so plain JAX runs a module that jax-triton and Triton lowered,
with neither of them installed. `make` lowers each case with `jax.export` (which needs the package `flatbuffers`), draws
its arguments and computes its reference on the CPU. `run` executes each module several times. For each output it prints
the relative error in norm against the reference (`-` if the case has none) and the largest relative difference between
two executions.

A driver older than Triton's `ptxas` refuses newer PTX ("Unsupported .version"). `make --ptxas PATH`, with the `ptxas`
of that driver's CUDA release, writes PTX that the driver accepts.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

INDEX = "index.json"
RUNS = 5


def make_exports(folder: Path, selectors: Sequence[str], capability: int) -> None:
    """Writes each case's module, arguments and reference. Raises CaseError or InputError as `check` does."""
    from ligerdiag.api.catalogue import list_cases
    from ligerdiag.compile.cases.arguments import compute_donated, compute_output_names, draw_arguments
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.jax_versions import assume_gpu
    from ligerdiag.compile.lowering.lowered_case import import_kernel_libraries
    from ligerdiag.replay.runs.case_inputs import compute_reference

    import_kernel_libraries()
    folder.mkdir(parents=True, exist_ok=True)
    loader = CaseLoader()
    index: list[dict[str, Any]] = []
    for number, spec in enumerate(list_cases(selectors)):
        case = loader.find_case(spec.source, spec.id)
        if case.mesh:
            sys.stdout.write(f"{spec.id}: skipped, its arguments are sharded\n")
            continue
        with jax.default_device(jax.devices("cpu")[0]):
            drawn = draw_arguments(case)
        jitted = jax.jit(case.function, donate_argnums=compute_donated(case), keep_unused=case.keep_unused)
        checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in _TARGETS]
        with assume_gpu(capability):
            exported = jax.export.export(jitted, platforms=("cuda",), disabled_checks=checks)(*drawn)
        (folder / f"{number}.bin").write_bytes(exported.serialize())
        arrays = {f"argument {i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(drawn))}
        if case.reference is not None:
            arrays |= {f"reference {name}": np.asarray(value) for name, value in compute_reference(case).items()}
        np.savez(folder / f"{number}.npz", **arrays)
        outputs = compute_output_names(jax.eval_shape(case.function, *drawn))
        index.append({"id": spec.id, "number": number, "outputs": outputs, "arguments": len(jax.tree.leaves(drawn))})
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


_TARGETS = ("triton_kernel_call", "triton_kernel_call_ffi", "__gpu$xla.gpu.triton", "mosaic_gpu_v2")


def run_exports(folder: Path) -> Iterator[str]:
    """Yields a line for each output of each case, or one line with the error for a case that does not run."""
    yield f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {RUNS} executions"
    for entry in json.loads((folder / INDEX).read_text(encoding="utf-8")):
        try:
            yield from _run(folder, entry)
        except Exception as fault:  # an error in one module must not end the run of the others
            yield f"{entry['id']}: {type(fault).__name__}: {str(fault).splitlines()[0][:160]}"


def _run(folder: Path, entry: Mapping[str, Any]) -> Iterator[str]:
    number = entry["number"]
    call = jax.jit(jax.export.deserialize(bytearray((folder / f"{number}.bin").read_bytes())).call)
    with np.load(folder / f"{number}.npz") as file:
        arrays = dict(file)
    executions: list[list[Any]] = []
    for _ in range(RUNS):
        noise = jax.random.normal(jax.random.key(len(executions)), (1 << 22,))  # so that freed memory is not all zeros
        jax.block_until_ready(noise)
        del noise
        given = [jax.device_put(arrays[f"argument {i}"]) for i in range(entry["arguments"])]
        executions.append([np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(call(*given))])
    for output, name in enumerate(entry["outputs"]):
        first = executions[0][output]
        steady = max(_relate(execution[output], first) for execution in executions)
        reference = arrays.get(f"reference {name}")
        error = "-" if reference is None else f"{max(_relate(one[output], reference) for one in executions):.2e}"
        yield f"{entry['id']:<44} {name:<12} error {error:>9}   between executions {steady:.2e}"


def _relate(found: Any, wanted: Any) -> float:
    """Returns the norm of the difference relative to the norm of `wanted`; NaN if only `found` has a number that is not
    finite.
    """
    wanted = np.asarray(wanted, np.float64)
    return float(np.linalg.norm(found - wanted) / (np.linalg.norm(wanted) or 1.0))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.exported", description=__doc__)
    parser.add_argument("command", choices=("make", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--capability", type=int, default=90, help="compute capability, 90 for an H100 or H200")
    parser.add_argument("--ptxas", default="", help="the ptxas whose PTX version the kernels are written for")
    options = parser.parse_args()
    if options.ptxas:
        os.environ |= {"TRITON_PTXAS_PATH": options.ptxas, "TRITON_PTXAS_BLACKWELL_PATH": options.ptxas}
    if options.command == "make":
        make_exports(options.folder, options.cases, options.capability)
        return
    for line in run_exports(options.folder):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
