"""Worker side: makes the artifact of one case.

1. The key is a hash of everything that decides the contents of the files: the program (StableHLO with tags and
   locations), its names, its calls, target, toolchain, flags, ties, the environment and the settings of JAX at that
   time, and ligerdiag's own source for it.
2. An artifact does not depend on what the worker had compiled before, except for the measured seconds.
3. A complete artifact with that key is reused, whichever process made it. Otherwise it is made in a directory of its
   own and moved into place when it is complete.
"""

import json
import shutil
import sys
import traceback
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import jax

from ligerdiag.compile.artifact_store import find_artifact, hold_key, keep_artifact
from ligerdiag.compile.artifacts import (
    AS_WRITTEN,
    FORMAT_VERSION,
    KERNEL_CALLS,
    LOG,
    OPTIMIZED,
    PROVENANCE,
    READERS,
    THUNKS,
    UNOPTIMIZED,
    Provenance,
    render_kernel_calls,
    render_provenance,
)
from ligerdiag.compile.case_loader import CaseLoader
from ligerdiag.compile.job import CompileAnswer, CompileRequest, Flag
from ligerdiag.compile.kernel_calls import find_live_tags, settle_calls
from ligerdiag.compile.kernel_launch import render_kernel_launch
from ligerdiag.compile.lowering import LoweredCase, lower_case
from ligerdiag.compile.module_id import drop_module_id
from ligerdiag.compile.placements import Placement, compute_placements
from ligerdiag.compile.reader import render_readers
from ligerdiag.compile.settings import compute_environment, compute_settings
from ligerdiag.compile.target import strip_comments
from ligerdiag.compile.worker_faults import describe_fault
from ligerdiag.errors import CompileError

PASSES_FLAG = "xla_dump_hlo_pass_re"
_OPTIMIZED = "gpu_after_optimizations.hlo.pb"


def compile_case(request: CompileRequest, loader: CaseLoader, log: Path) -> CompileAnswer:
    """Answers the request; every LigerdiagError is in one line, with the traceback in the log."""
    case = loader.find_case(request.source, request.case_id)
    begin = _compute_size(log)
    program = lower_case(case, request.description, request.compute_capability, ties=request.ties)
    key = compute_key(request, program)
    store = Path(request.artifacts)
    with hold_key(store, key):
        reused = find_artifact(store, key, request.not_before) is not None
        if not reused:
            make_artifact(request, program, key, log, begin)
            keep_artifact(Path(request.scratch), store, key)
    return CompileAnswer(key=key, reused=reused, dependencies=loader.compute_dependencies())


def compute_key(request: CompileRequest, program: LoweredCase) -> str:
    """See 1 above."""
    parts = (
        FORMAT_VERSION,
        request.fingerprint,
        strip_comments(request.description),
        sorted(request.versions.items()),
        sorted(request.flags.items()),
        sorted(request.ties),
        sorted(_compute_environment(request).items()),
        sorted(compute_settings().items()),
        program.outputs,
        program.inputs,
        program.parameters,
        [asdict(call) for call in program.traced_calls],
        [render_kernel_launch(launch) for launch in program.launches],
        program.text,
    )
    return sha256(json.dumps(parts).encode()).hexdigest()


def make_artifact(request: CompileRequest, program: LoweredCase, key: str, log: Path, begin: int = 0) -> Any:
    """Compiles and fills the request's scratch directory; returns the `jax.stages.Compiled`. Raises CompileError.

    begin: where the case's own part of the log begins. What an import says is in the log of the job that came first.
    """
    directory = Path(request.scratch)
    dump = directory / "dump"
    dump.mkdir(parents=True)
    compiled, compile_seconds = _compile(program, request, dump)
    unoptimized, optimized, thunks = _find_dumped(dump)
    calls = settle_calls(program.traced_calls, program.lowered_calls, find_live_tags(unoptimized.read_bytes()))
    (directory / AS_WRITTEN).write_bytes(drop_module_id(program.as_written))
    (directory / UNOPTIMIZED).write_bytes(drop_module_id(unoptimized.read_bytes()))
    (directory / OPTIMIZED).write_bytes(drop_module_id(optimized.read_bytes()))
    unoptimized.unlink()
    optimized.unlink()
    if thunks is None:
        (directory / THUNKS).touch()
    else:
        thunks.rename(directory / THUNKS)
    if PASSES_FLAG in request.flags:
        (directory / "passes").mkdir()
        for path in sorted(dump.glob("*.hlo.pb")):
            path.rename(directory / "passes" / path.name)
    shutil.rmtree(dump)
    (directory / KERNEL_CALLS).write_text(render_kernel_calls(calls, program.launches), encoding="utf-8")
    (directory / READERS).write_text(render_readers(program.readers), encoding="utf-8")
    provenance = _describe(request, program, compiled, key, compile_seconds)
    (directory / PROVENANCE).write_text(render_provenance(provenance), encoding="utf-8")
    _compute_size(log)
    (directory / LOG).write_bytes(log.read_bytes()[begin:])
    return compiled


def _compute_size(log: Path) -> int:
    """Bytes that are in the log by now."""
    sys.stdout.flush()
    sys.stderr.flush()
    return log.stat().st_size


def _compile(program: LoweredCase, request: CompileRequest, dump: Path) -> tuple[Any, float]:
    options: dict[str, Flag] = {
        **request.flags,
        "xla_dump_to": str(dump),
        "xla_dump_hlo_as_proto": True,
        "xla_dump_hlo_as_text": False,
    }
    started = perf_counter()
    try:
        compiled = program.lowered.compile(compiler_options=options)
    except Exception as fault:
        traceback.print_exception(fault)
        raise CompileError(f"case `{request.case_id}` does not compile: {describe_fault(fault)}") from fault
    return compiled, perf_counter() - started


def _find_dumped(dump: Path) -> tuple[Path, Path, Path | None]:
    """Unoptimized and optimized module and thunks of the last module that was compiled: the program itself."""
    found = {
        int(path.name.split(".")[0].removeprefix("module_")): path for path in dump.glob(f"module_*.jit_*{_OPTIMIZED}")
    }
    if not found:
        raise CompileError("XLA wrote no optimized module: is a flag in XLA_FLAGS in the way of the dump?")
    module = found[max(found)].name.split(".")[0]
    unoptimized = next(dump.glob(f"{module}.*before_optimizations.hlo.pb"), None)
    if unoptimized is None:
        raise CompileError(f"XLA wrote no unoptimized module beside `{found[max(found)].name}`")
    thunks = (dump.glob(f"{module}.*thunk_sequence{when}.txt") for when in ("_after_thunk_passes", ""))
    return unoptimized, found[max(found)], next((path for paths in thunks for path in paths), None)


def _compute_environment(request: CompileRequest) -> dict[str, str]:
    """Returns the environment that the parent knows, as the case's file has left it."""
    path = {name: value for name, value in request.environment.items() if name == "PYTHONPATH"}
    return path | compute_environment()


def _compute_placements(program: LoweredCase, compiled: Any) -> tuple[tuple[Placement, ...], tuple[Placement, ...]]:
    """Returns the placements of the inputs and of the outputs."""
    leaves: Any = jax.tree_util.tree_leaves
    inputs = [leaf.shape for leaf in leaves(program.lowered.args_info)]
    outputs = [leaf.shape for leaf in leaves(program.lowered.out_info)]
    return (
        compute_placements(inputs, leaves(compiled.input_shardings), program.assignment),
        compute_placements(outputs, leaves(compiled.output_shardings), program.assignment),
    )


def _describe(
    request: CompileRequest, program: LoweredCase, compiled: Any, key: str, compile_seconds: float
) -> Provenance:
    inputs, outputs = _compute_placements(program, compiled)
    return Provenance(
        format_version=FORMAT_VERSION,
        key=key,
        case_id=request.case_id,
        source=str(request.source),
        outputs=program.outputs,
        inputs=program.inputs,
        input_placements=inputs,
        output_placements=outputs,
        parameters=program.parameters,
        tags=program.tags,
        target=request.target,
        target_sha256=sha256(strip_comments(request.description).encode()).hexdigest(),
        compute_capability=request.compute_capability,
        mesh=program.mesh,
        devices=len(program.assignment),
        toolchain=request.toolchain,
        versions=request.versions,
        environment=_compute_environment(request),
        flags=request.flags,
        ties=tuple(sorted(request.ties)),
        trace_seconds=program.trace_seconds,
        lower_seconds=program.lower_seconds,
        compile_seconds=compile_seconds,
    )
