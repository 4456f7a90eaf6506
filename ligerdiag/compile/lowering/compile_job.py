"""Makes the artifact of one case: the directory with the results of compiling its program for one target.

The key of an artifact has two hashes. The first covers everything that decides what is compiled: the program (StableHLO
with tags and locations), the same program as its author intended it (each read on the side of a kernel's write where the
author put it, see `intent`), the names of its inputs and outputs, its kernel calls, the target, the toolchain, flags,
ties, the environment and the settings of JAX at that time, and ligerdiag's own sources. The second covers the names in
the artifact: those of its case, file, target and toolchain. Except for measured seconds, an artifact does not depend on
what the worker or the cache did before.

A complete artifact with the same key is reused, whichever process made it. If only the first hash is equal, another
case has the same program and its files are copied. Otherwise the artifact is made in a directory of its own and moved
into place when it is complete.

For a target that is only described, nothing runs, so compiling skips all that only running needs. XLA starts a ptxas
for each kernel, after it has written schedule, buffer assignment and thunks; scripts that replace ptxas and nvlink
write empty files, which saves 40 percent of the processor time. XLA does not autotune either, since without a GPU it
would only compile each fusion to see whether that works, and LLVM does not optimize. If XLA finds no configuration for
a matrix product without autotuning, the program is compiled once more, with autotuning.
"""

import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from threading import Timer
from time import perf_counter
from typing import Any

import jax

from ligerdiag.artifacts.artifact import (
    AS_LOWERED,
    AS_WRITTEN,
    FORMAT_VERSION,
    KERNEL_CALLS,
    LOG,
    MANIFEST,
    OPTIMIZED,
    PROVENANCE,
    READERS,
    RECORDED,
    THUNKS,
    UNOPTIMIZED,
    Artifact,
    Provenance,
    drop_module_id,
    render_kernel_calls,
    render_provenance,
)
from ligerdiag.artifacts.cache import find_artifact, find_same_program, hold_key, join_key, keep_artifact
from ligerdiag.artifacts.call_records import Placement, compute_placements, render_readers
from ligerdiag.compile.cases.arguments import build_mesh, compute_words
from ligerdiag.compile.cases.device_queries import answer_as, drop_host_callbacks, import_as, note_question
from ligerdiag.compile.cases.known_fields import fit_description
from ligerdiag.compile.cases.live_functions import place_meshes
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.cases.module_state.late_imports import LATE_IMPORTS
from ligerdiag.compile.cases.printed import record_prints
from ligerdiag.compile.lowering.autotuner_choices import (
    USUAL_LEVEL,
    choose_tuning_options,
    drop_unknown_form,
    enter_tuning,
    explain_fault,
    read_choices,
)
from ligerdiag.compile.lowering.jax_versions import assume_gpu
from ligerdiag.compile.lowering.kernel_calls import compute_kernel_calls, find_live_tags
from ligerdiag.compile.lowering.lineage import drop_lineage, has_lineage, put_lineage
from ligerdiag.compile.lowering.lowered_case import LoweredCase, convert_to_hlo, lower_case
from ligerdiag.compile.lowering.partitioned import tag_shards
from ligerdiag.errors import CompileError, describe_fault
from ligerdiag.hlo.custom_calls import PARTITIONED
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import CompileAnswer, CompileRequest, Flag
from ligerdiag.model.tuning import TUNING_LEVEL, Tuning
from ligerdiag.toolchains.gpu_targets import read_architecture
from ligerdiag.toolchains.text_format import strip_comments
from ligerdiag.toolchains.toolchain import compute_important_environment
from ligerdiag.workers.outside_reads import OUTSIDE_READS

_PLAIN: tuple[type[object], ...] = (str, int, float, tuple, type(None))


def compute_settings() -> dict[str, str]:
    """Returns the settings of `jax.config` by name, as texts. A value that is not a number, a text, a tuple or None is
    replaced by the name of its type.
    """
    config: Any = jax.config
    return {name: _render(getattr(config, name, value)) for name, value in sorted(config.values.items())}


def compute_environment() -> dict[str, str]:
    """Returns this worker's environment variables that can change the result of a compile. PYTHONPATH is left out,
    because ligerdiag sets it when it starts the worker.
    """
    return {name: value for name, value in compute_important_environment().items() if name != "PYTHONPATH"}


def _render(value: object) -> str:
    return repr(value) if isinstance(value, _PLAIN) else type(value).__qualname__


_QUICK: Mapping[str, Flag] = {TUNING_LEVEL: 0, "xla_backend_optimization_level": 0}
_REMEDIES: Mapping[str, Mapping[str, Flag]] = {
    "No FFI handler registered": {"xla_gpu_mock_custom_calls": True},
    "No supported config found": {TUNING_LEVEL: USUAL_LEVEL},
}
"""For a part of XLA's error message, the compiler options with which the program compiles nevertheless.

The options for the first message let XLA make the schedule without the function of a custom call, which the program's
own library would provide. Those for the second enable autotuning.
"""
_HEAD_START = 0.3
"""Seconds before ligerdiag starts to translate the program as traced. By then JAX has passed even a large program to
XLA, which compiles without Python's lock; the translation holds the lock and runs while XLA compiles.
"""
PASSES_FLAG = "xla_dump_hlo_pass_re"
_OPTIMIZED = "gpu_after_optimizations.hlo.pb"


def compile_case(request: CompileRequest, loader: CaseLoader, log: Path) -> CompileAnswer:
    """Makes the artifact of the requested case, unless the cache has it, and returns its key. Raises LigerdiagError
    with a message of one line; the traceback is in the log.
    """

    enter_tuning(request.tuning)
    description = fit_description(request.description).text

    def build(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
        note_question()  # the mesh is one of this target's devices
        return build_mesh(sizes, description, explicit)

    with import_as(description, build_mesh({}, description).devices.flat), place_meshes(build):
        loader.load(request.source)
    case = loader.find_case(request.source, request.case_id)
    request = add_flags(request, case)
    begin, known = _measure_log(log), len(OUTSIDE_READS.get_notes())
    with record_prints() as printed:
        program = lower_case(
            case,
            description,
            request.compute_capability,
            ties=request.ties,
            by_barrier=request.by_barrier,
            declared=request.declared,
        )
    key = compute_key(request, program, loader.compute_dependencies())
    store = Path(request.artifacts)
    with hold_key(store, key):
        if find_artifact(store, key, request.not_before) is None:
            same = find_same_program(store, key, request.not_before)
            if same is None or not _copy_artifact(same, request, key):
                make_artifact(request, program, key, log, begin)
            keep_artifact(Path(request.scratch), store, key)
    return CompileAnswer(
        key=key,
        dependencies=loader.compute_dependencies(),
        printed="".join((printed.text, *OUTSIDE_READS.get_notes(known))),
        state_notes=LATE_IMPORTS.notes,
    )


def add_flags(request: CompileRequest, case: Case) -> CompileRequest:
    """Adds the case's own flags of XLA to the request and returns the result. A flag that the request already has keeps
    its value.
    """
    return replace(request, flags={**case.xla_flags, **request.flags}) if case.xla_flags else request


def compute_key(request: CompileRequest, program: LoweredCase, dependencies: Mapping[str, str]) -> str:
    """Returns the key of the artifact, as the docstring at the top of this file defines it.

    dependencies: files of the project to their sha256. They are part of the key only if the program has a
    `custom_partitioning`. The text of such a program names the function on shards only by an address in memory, and a
    function of another case may have the same address.
    """
    names = (request.case_id, str(request.source), request.target, request.toolchain)
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
        program.text,
        program.as_written,
        program.crossed_operands,
        program.has_snapshots,
        ([asdict(move) for move in program.moved_refs], program.as_lowered, program.refs_trouble),
        (*names, *sorted(dependencies.items())) if PARTITIONED in program.text else (),
        (program.donated, program.dropped, program.donation_warning),
        *([] if program.shared is None else [asdict(program.shared)]),
        *([("on host", program.on_host)] if program.on_host else []),
        "" if request.tuning is None else request.tuning.copy_sha256,
        [asdict(kernel) for kernel in program.library_kernels],
        *(("lineage",) if request.lineage else ()),
    )
    return join_key(*(sha256(json.dumps(part).encode()).hexdigest() for part in (parts, names)))


def _copy_artifact(same: Artifact, request: CompileRequest, key: str) -> bool:
    """Fills the request's scratch directory with the files of an artifact of the same program, but with the request's
    names.

    Returns whether that worked; it fails if another process removes the artifact meanwhile.
    """
    directory = Path(request.scratch)
    try:
        shutil.copytree(same.directory, directory, ignore=shutil.ignore_patterns(MANIFEST))
    except OSError:
        shutil.rmtree(directory, ignore_errors=True)
        return False
    provenance = replace(
        same.provenance,
        key=key,
        case_id=request.case_id,
        source=str(request.source),
        target=request.target,
        toolchain=request.toolchain,
    )
    (directory / PROVENANCE).write_text(render_provenance(provenance), encoding="utf-8")
    return True


def make_artifact(
    request: CompileRequest, program: LoweredCase, key: str, log: Path, begin: int = 0, *, runs: bool = False
) -> Any:
    """Compiles the program and writes the files of the artifact into the request's scratch directory, except for the
    manifest. Returns the `jax.stages.Compiled`. Raises CompileError if the program does not compile.

    begin: position in the log, in bytes, at which the output of this case begins. runs: whether to compile for the GPUs
    of this machine, so that the program can run.
    """
    directory = Path(request.scratch)
    dump = directory / "dump"
    dump.mkdir(parents=True)
    converted: list[bytes] = []
    beside = Timer(_HEAD_START, lambda: converted.append(convert_to_hlo(program.as_written)))
    beside.start()
    try:
        compiled, compile_seconds, opaque, tuning, lineage = _compile(program, request, dump, log, runs)
    finally:
        beside.cancel()  # has no effect once the translation runs
        beside.join()
    if opaque:
        program = program.without_bodies(opaque)
        converted.clear()
    unoptimized, optimized, thunks = _find_dumped(dump)
    if lineage == RECORDED and not has_lineage(unoptimized.read_bytes()):
        lineage = "this XLA drops the attribute `mhlo.original_value`"
    live = find_live_tags(unoptimized.read_bytes())
    live |= {step.tag for body in program.bodies if body.tag in live for step in body.steps}
    calls = compute_kernel_calls(program.traced_calls, program.lowered_calls, live, program.dropped_calls)
    as_written = converted[0] if converted else convert_to_hlo(program.as_written)
    (directory / AS_WRITTEN).write_bytes(drop_module_id(as_written))
    if as_lowered := convert_to_hlo(program.as_lowered):
        (directory / AS_LOWERED).write_bytes(drop_module_id(as_lowered))
    if program.as_lowered and not (as_written and as_lowered) and not program.refs_trouble:
        program = replace(program, refs_trouble="jaxlib cannot translate the program as traced, or as lowered, to HLO")
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
    (directory / KERNEL_CALLS).write_text(render_kernel_calls(calls, program.library_kernels), encoding="utf-8")
    (directory / READERS).write_text(render_readers(program.readers), encoding="utf-8")
    provenance = replace(_describe(request, program, compiled, key, compile_seconds), tuning=tuning, lineage=lineage)
    (directory / PROVENANCE).write_text(render_provenance(provenance), encoding="utf-8")
    _measure_log(log)
    (directory / LOG).write_bytes(log.read_bytes()[begin:])
    return compiled


def _measure_log(log: Path) -> int:
    """Flushes the output of this process and returns the size of the log in bytes."""
    sys.stdout.flush()
    sys.stderr.flush()
    return log.stat().st_size


def _compile(
    program: LoweredCase, request: CompileRequest, dump: Path, log: Path, runs: bool
) -> tuple[Any, float, Collection[int], Tuning | None, str]:
    """Returns the compiled program, the seconds that compiling took, the tags (numbers of operations) of the
    `custom_partitioning` calls whose operations on shards could not be tagged, the choices of XLA's autotuner that
    come from a file, and the field `lineage` of the provenance.

    log: the file that receives the output of this process. runs: whether the program will run on the GPUs of this machine.
    """
    options: dict[str, Flag] = {
        **({} if runs else _choose_quick_options()),
        **({} if request.tuning is None else choose_tuning_options(request.tuning)),
        **request.flags,
        "xla_dump_to": str(dump),
        "xla_dump_hlo_as_proto": True,
        "xla_dump_hlo_as_text": False,
    }
    started = perf_counter()
    path = os.environ.get("PATH", os.defpath)
    try:
        if not runs:  # the PTX of a kernel call is assembled by the ptxas on PATH, whatever the option says
            os.environ["PATH"] = os.pathsep.join((str(_find_assembler() / "bin"), path))
            drop_host_callbacks(program.lowered)
        compiled, opaque, begin = None, list[int](), 0
        lineage = _put_lineage(program) if request.lineage else ""
        while compiled is None:
            begin = _measure_log(log)
            try:
                with tag_shards(program.bodies) as opaque, nullcontext() if runs else _answering(program, request):
                    compiled = program.lowered.compile(compiler_options=options)
            except Exception as fault:
                if request.tuning is not None and drop_unknown_form(str(fault), options, request.tuning):
                    continue
                remedy = find_remedy(str(fault), options, request.flags)
                if remedy is None and lineage == RECORDED:
                    drop_lineage(program.lowered.compiler_ir("stablehlo"))
                    lineage = f"XLA does not compile the program with its lineage: {describe_fault(fault)}"
                    continue
                if runs or remedy is None:
                    raise
                options |= remedy
    except Exception as fault:
        traceback.print_exception(fault)
        told = str(fault) if isinstance(fault, CompileError) else ""
        if request.tuning is not None and not told:
            told = explain_fault(str(fault), request.tuning)
        raise CompileError(f"case `{request.case_id}` does not compile: {told or describe_fault(fault)}") from fault
    finally:
        os.environ["PATH"] = path
    seconds, tuning = perf_counter() - started, None
    if request.tuning is not None:
        _measure_log(log)
        tuning = read_choices(log.read_bytes()[begin:].decode(errors="replace"), request.tuning)
    return compiled, seconds, opaque, tuning, lineage


def _put_lineage(program: LoweredCase) -> str:
    """Makes XLA record the lineage of values, and returns the field `lineage` of the provenance."""
    known = put_lineage(program.lowered.compiler_ir("stablehlo"))
    return RECORDED if known else "this jaxlib does not know `mhlo.original_value`"


@contextmanager
def _answering(program: LoweredCase, request: CompileRequest) -> Generator[None]:
    """Answers questions about devices as the target would, while XLA traces and lowers the function of a
    `custom_partitioning` in the middle of compiling.
    """
    description = fit_description(request.description).text
    gpu = assume_gpu(request.compute_capability, read_architecture(description))
    with answer_as(program.assignment, description), gpu:
        yield


def find_remedy(fault: str, options: Mapping[str, Flag], asked: Mapping[str, Flag]) -> Mapping[str, Flag] | None:
    """Returns compiler options that avoid a fault of XLA. Returns None if there are no such options, if they are set
    already, or if the user has set them to other values.

    fault: XLA's error message. options: the compiler options of the failed compile. asked: options that the user gave.
    """
    given = os.environ.get("XLA_FLAGS", "")
    for said, remedy in _REMEDIES.items():
        is_new = any(options.get(name) != value for name, value in remedy.items())
        if said in fault and is_new and not any(name in asked or f"--{name}" in given for name in remedy):
            return remedy
    return None


def _choose_quick_options() -> dict[str, Flag]:
    """Returns the compiler options that skip autotuning and the making of machine code, except options that the user
    sets in XLA_FLAGS.
    """
    given = os.environ.get("XLA_FLAGS", "")
    options = {**_QUICK, "xla_gpu_cuda_data_dir": str(_find_assembler())}
    return {name: value for name, value in options.items() if not re.search(rf"--{name}\b", given)}


def _find_assembler() -> Path:
    """Returns the folder whose bin/ has the scripts that replace ptxas and nvlink. Raises CompileError if one of the
    scripts cannot be run.
    """
    folder = Path(__file__).with_name("assembler")
    for name in ("ptxas", "nvlink"):
        if not os.access(folder / "bin" / name, os.X_OK):
            raise CompileError(f"`{folder / 'bin' / name}` cannot be run: make it executable, or reinstall ligerdiag")
    return folder


def _find_dumped(dump: Path) -> tuple[Path, Path, Path | None]:
    """Returns the paths of the unoptimized module, the optimized module and the thunks of the program; None for thunks
    that XLA did not write.

    Of several modules in the dump, the program is the one that was compiled last. Raises CompileError if a module is
    missing.
    """
    names = sorted(os.listdir(dump))  # `Path.glob` would compile five patterns for each program
    found = {
        int(name.split(".")[0].removeprefix("module_")): dump / name
        for name in names
        if name.startswith("module_") and ".jit_" in name and name.endswith(_OPTIMIZED)
    }
    if not found:
        raise CompileError("XLA wrote no optimized module: remove any flag from XLA_FLAGS that suppresses the dump")
    module = found[max(found)].name.split(".")[0]
    own = [name for name in names if name.startswith(f"{module}.")]
    unoptimized = next((dump / name for name in own if name.endswith("before_optimizations.hlo.pb")), None)
    if unoptimized is None:
        raise CompileError(f"XLA wrote the optimized module `{found[max(found)].name}`, but not the unoptimized one")
    endings = ("thunk_sequence_after_thunk_passes.txt", "thunk_sequence.txt")
    thunks = (dump / name for ending in endings for name in own if name.endswith(ending))
    return unoptimized, found[max(found)], next(thunks, None)


def _compute_environment(request: CompileRequest) -> dict[str, str]:
    """Returns the environment variables that can change what is compiled, as the case's file left them when it was
    imported; PYTHONPATH is the parent's.
    """
    path = {name: value for name, value in request.environment.items() if name == "PYTHONPATH"}
    return path | compute_environment()


def _compute_placements(
    request: CompileRequest, program: LoweredCase, compiled: Any
) -> tuple[tuple[Placement, ...], tuple[Placement, ...]]:
    """Returns how the inputs and how the outputs are split over the devices.

    The second tuple is empty if XLA does not report how it splits the outputs, as before JAX 0.10; then the schedule is
    judged but not replayed.
    """
    leaves: Any = jax.tree_util.tree_leaves

    def place(arrays: Any, shardings: Any) -> tuple[Placement, ...]:
        each = leaves(arrays)
        words = [compute_words(leaf) for leaf in each]
        return compute_placements([leaf.shape for leaf in each], leaves(shardings), program.assignment, words)

    inputs = place(program.lowered.args_info, compiled.input_shardings)
    try:
        return inputs, place(program.lowered.out_info, compiled.output_shardings)
    except CompileError:
        if _is_partitioned(request, inputs):
            return inputs, ()
        raise


def _is_partitioned(request: CompileRequest, inputs: Sequence[Placement]) -> bool:
    """Whether XLA's partitioner ran: true if an input is split over several devices and no flag contains the name of
    the partitioner's pass, as one that disables the pass does.
    """
    flags = [*map(str, request.flags.values()), request.environment.get("XLA_FLAGS", "")]
    is_split = any(shard != one.shards[0] for one in inputs for shard in one.shards)
    return is_split and not any("spmd-partitioning" in words for words in flags)


def _describe(
    request: CompileRequest, program: LoweredCase, compiled: Any, key: str, compile_seconds: float
) -> Provenance:
    inputs, outputs = _compute_placements(request, program, compiled)
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
        dropped_fields=fit_description(request.description).dropped if request.description else (),
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
        crossed_operands=program.crossed_operands,
        has_snapshots=program.has_snapshots,
        moved_refs=program.moved_refs,
        ref_stores=program.ref_stores,
        refs_trouble=program.refs_trouble,
        donated=program.donated,
        dropped=program.dropped,
        donation_warning=program.donation_warning,
        on_host=program.on_host,
        shared=program.shared,
    )
