"""Runs a campaign on the GPUs of this machine: each program is compiled and run there, and that artifact is judged and
replayed.

In the campaign's directory:

    device.jsonl            one line for each judged program; a campaign continues after the lines there
    contradictions/         `SEED-KIND.py`, a case file that needs no other file, for each contradiction
    artifacts/SEED.tar.xz   the device's artifact of a program with a contradiction, if it is small enough

Three draws of the arguments run several times each. Program order, as replay computes it, is right by definition; the
row also has the error against the formulas in plain jnp. Products are computed in full precision
(`JAX_DEFAULT_MATMUL_PRECISION`), because a value rounded to TF32 before a maximum or a branch would hide errors. XLA
does not autotune, because that takes most of a compile. The replay of the device's artifact on more draws says which
outputs are wrong, and which are right up to rounding (`more_draws`). A program that needs more GPUs than the machine
has is omitted.
"""

import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ligerdiag.api.judging import DRAWS
from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.compile.compile_service import discover_cases, make_request
from ligerdiag.device.device_jobs import (
    ComparisonAnswer,
    DeviceAnswer,
    DeviceRequest,
    make_comparison_job,
    make_comparison_request,
    make_device_job,
)
from ligerdiag.device.device_service import COMPARISON_WORKER, DEVICE_ENVIRONMENT, DEVICE_WORKER, RUNS, require_gpu
from ligerdiag.ending import work_until_ended
from ligerdiag.errors import InputError, LigerdiagError, describe_error
from ligerdiag.inspection.compilation import inspect_artifact, open_readers
from ligerdiag.model.findings import PROGRAM_ORDER, Attribution, DeviceOutput, DeviceRun
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import Inspection, Progress
from ligerdiag.replay.replay_service import compute_environment
from ligerdiag.report.agreement import compute_disagreements
from ligerdiag.report.relative_errors import compute_worst
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool, count_cores
from ligerdiag.workers.templates import Templates
from tools.fuzz.campaign import write_contradictions
from tools.fuzz.drawing import draw_program
from tools.fuzz.judged_programs import (
    DEVICE,
    FuzzOptions,
    FuzzReport,
    JudgedProgram,
    add_looks,
    find_contradictions,
    list_doubted,
    list_trusted,
    load_known,
)
from tools.fuzz.more_draws import DRAWS_WORKER, WRONG, DrawsRequest, make_draws_job
from tools.fuzz.processes import Workload, append_row, read_processor_seconds, run_workloads, serve_workload
from tools.fuzz.programs import RandomProgram
from tools.fuzz.source import render_case_file

_FILE = "device.jsonl"
_ARTIFACT_BYTES = 12 << 20
"""The largest artifact that is kept."""
_TUNING = "xla_gpu_autotune_level"
_TUNED = {_TUNING: 4}
_NEEDS_TUNING = "No supported config found"
_PORTION = 64
"""Programs per file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One line of `device.jsonl`."""

    judged: JudgedProgram
    """The verdict on each output of the device's artifact, and the attribution of the device's numbers."""
    devices: int
    device: str = ""
    """Name of the GPU, such as `NVIDIA H200`."""
    numbers: Mapping[str, DeviceOutput] = field(default_factory=dict[str, DeviceOutput])
    reference: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Output name to its error against the formulas in plain jnp, for each draw."""
    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Output name to the ids of the rules with a finding on it."""


def run_device_campaign(options: FuzzOptions, report_progress: Callable[[Progress], None]) -> FuzzReport:
    """Judges the programs of these seeds that have no row yet. Raises InputError if there is no GPU."""
    require_gpu()
    gpus = list_gpus()
    path = options.directory / _FILE
    report = FuzzReport(rows=load_device_rows(path))
    before = len(report.rows)
    programs = {seed: draw_program(seed) for seed in range(options.first, options.first + options.count)}
    fitting = [seed for seed, program in programs.items() if program.devices <= len(gpus)]
    report.left_out = len(programs) - len(fitting)
    missing = {seed: programs[seed].devices for seed in fitting if seed not in report.rows}
    workloads = plan_workloads(missing, gpus, options)
    started = read_processor_seconds()

    with work_until_ended() as work:
        report.faults = run_workloads("tools.fuzz.gpu_campaign", workloads, path, report_progress)
    report.rows = load_device_rows(path)
    report.judged, report.seconds = len(report.rows) - before, read_processor_seconds() - started
    report.ended_by = work.ending
    if report.ended_by is None:
        alone = Workload(directory=str(options.directory), seeds=(), target=DEVICE, timeout=options.timeout)

        def judge(some: Sequence[RandomProgram], kind: str) -> Mapping[int, JudgedProgram]:
            workload = replace(alone, gpus=",".join(gpus[: max(one.devices for one in some)]))
            rows: dict[int, JudgedProgram] = {}
            for program, (row, _) in zip(some, _judge_programs(some, workload), strict=True):
                rows[program.variant] = row.judged
                progress = Progress(phase=f"shrink {program.seed}", event="finished", done=len(rows), total=len(some))
                report_progress(progress)
            return rows

        with work_until_ended() as work:
            write_contradictions(report, options, judge)
        report.ended_by = work.ending
    return report


def list_gpus() -> tuple[str, ...]:
    """Returns the name of each GPU for CUDA_VISIBLE_DEVICES. Raises InputError if `nvidia-smi` does not list them."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"expected `nvidia-smi` to list the GPUs but: {error}") from error
    return tuple(listed.stdout.decode().split())


def plan_workloads(missing: dict[int, int], gpus: Sequence[str], options: FuzzOptions) -> tuple[Workload, ...]:
    """Divides the programs among processes. Each process gets one GPU in turn, or all GPUs for programs that need
    several.

    missing: seed to the number of devices that its program needs.
    """
    jobs = options.jobs or count_cores()
    alone = [seed for seed, devices in missing.items() if devices == 1]
    together = [seed for seed, devices in missing.items() if devices > 1]
    for_all = min(len(together), max(1, jobs * len(together) // max(1, len(missing))))
    for_one = min(len(alone), max(1, jobs - for_all))
    plain = Workload(
        directory=str(options.directory), seeds=(), target=DEVICE, timeout=options.timeout, until=options.find_until()
    )
    return (
        *(
            replace(plain, seeds=tuple(alone[number::for_one]), gpus=gpus[number % len(gpus)])
            for number in range(for_one)
        ),
        *(replace(plain, seeds=tuple(together[number::for_all]), gpus=",".join(gpus)) for number in range(for_all)),
    )


def load_device_rows(path: Path) -> dict[int, JudgedProgram]:
    """Returns the judged programs by seed. Raises InputError for a file that cannot be read."""
    return {row.judged.seed: row.judged for row in load_known(DeviceRow, path)}


def judge_workload(workload: Workload) -> None:
    """Judges the workload's programs, and appends a row for each."""
    directory = Path(workload.directory)
    for start in range(0, len(workload.seeds), _PORTION):
        programs = [draw_program(seed) for seed in workload.seeds[start : start + _PORTION]]
        for row, artifact in _judge_programs(programs, workload):
            if artifact is not None and row.judged.contradictions:
                _keep(artifact, directory / "artifacts", row.judged.seed)
            append_row(directory / _FILE, row)


def _judge_programs(
    programs: Sequence[RandomProgram], workload: Workload
) -> Iterator[tuple[DeviceRow, Artifact | None]]:
    """Yields the row of each program, in their order, and its artifact, which exists until the next program."""
    scratch = ScratchFolder("fuzz-device")
    try:
        cache, toolchain = Cache(scratch.path / "cache"), current_toolchain()
        path = scratch.path / f"programs_{programs[0].seed}.py"
        path.write_text(render_case_file(programs, "Programs."), encoding="utf-8")
        with Templates() as templates:
            with Pool(cache=cache, toolchain=toolchain, jobs=1, templates=templates) as pool:
                cases = {case.id: case for case in discover_cases((str(path),), pool=pool)}
            with (
                _open_pool(cache, workload, DEVICE_WORKER, make_device_environment(workload.gpus)) as devices,
                _open_pool(cache, workload, COMPARISON_WORKER, compute_environment(1)) as replays,
                _open_pool(cache, workload, DRAWS_WORKER, compute_environment(1)) as draws,
                open_readers(toolchain, cache, templates) as readers,
            ):
                bench = _Bench(devices=devices, replays=replays, draws=draws, readers=readers, cache=cache)
                for program in programs:
                    if workload.is_over:
                        return
                    variant = f"-{program.variant}" if program.variant else ""
                    yield _judge_case(bench, cases[f"fuzz[{program.seed}{variant}]"], program)
    finally:
        scratch.remove()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Bench:
    devices: Pool
    replays: Pool
    draws: Pool
    readers: Pool
    cache: Cache


def make_device_environment(gpus: str) -> dict[str, str]:
    """Returns the environment of a process that runs programs on these GPUs: full precision, no autotuning."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --{_TUNING}=0".strip()
    own = {"CUDA_VISIBLE_DEVICES": gpus, "JAX_DEFAULT_MATMUL_PRECISION": "highest", "XLA_FLAGS": flags}
    return DEVICE_ENVIRONMENT | own


def _open_pool(cache: Cache, workload: Workload, module: str, environment: dict[str, str]) -> Pool:
    return Pool(
        cache=cache,
        toolchain=current_toolchain(),
        jobs=1,
        timeout=workload.timeout,
        module=module,
        environment=environment,
        forks=module != DEVICE_WORKER,  # an import may have opened a driver
    )


def _judge_case(bench: _Bench, case: CaseSpec, program: RandomProgram) -> tuple[DeviceRow, Artifact | None]:
    row = DeviceRow(judged=JudgedProgram(seed=program.seed, target=DEVICE), devices=program.devices)
    results, artifact = ScratchFolder("device"), None
    try:
        answer, request = _run(bench, case, str(results.path))
        artifact = bench.cache.find_artifact(answer.key)
        assert artifact is not None
        row = replace(row, device=answer.device, reference=dict(answer.errors))
        inspection = inspect_artifact(artifact, effects_cache=bench.cache.root / "effects", readers=bench.readers)
        job = make_comparison_job(make_comparison_request(request, artifact.directory), bench.replays.timeout)
        compared = bench.replays.submit(job).result()
        row = describe_run(row, inspection, compared, answer)
        if not compared.not_covered:
            row = replace(row, judged=_draw_more_arguments(bench, case, artifact, row))
    except InputError:
        raise  # there is no GPU: that is no fault of the program
    except LigerdiagError as error:
        row = replace(row, judged=replace(row.judged, unjudged=describe_error(error)))
    except Exception as fault:
        words = f"{type(fault).__name__}: {fault}"
        row = replace(row, judged=replace(row.judged, contradictions={"fault": words}, unjudged=words))
    finally:
        results.remove()
    return row, artifact


def _run(bench: _Bench, case: CaseSpec, results: str) -> tuple[DeviceAnswer, DeviceRequest]:
    for flags in ({}, _TUNED):
        compiles = replace(make_request(bench.devices, case), flags=flags)
        request = DeviceRequest(compile=compiles, results=results, draws=DRAWS, runs=RUNS)
        try:
            job = make_device_job(request, bench.devices.timeout)
            return bench.devices.submit(job).result(), request
        except LigerdiagError as error:
            if flags or _NEEDS_TUNING not in str(error):
                raise
    raise AssertionError


def _draw_more_arguments(bench: _Bench, case: CaseSpec, artifact: Artifact, row: DeviceRow) -> JudgedProgram:
    """Replays the artifact on more arguments; returns the row with what all draws say."""
    judged = row.judged
    doubtful = tuple(name for name in list_trusted(judged) if judged.outputs[name][1] == Attribution.NEITHER)
    request = DrawsRequest(
        source=case.source,
        case_id=case.id,
        artifact=str(artifact.directory),
        doubted=list_doubted(judged),
        trusted=list_trusted(judged),
        measured=doubtful,
    )
    try:
        more = bench.draws.submit(make_draws_job(request, bench.draws.timeout)).result()
    except LigerdiagError:
        return find_contradictions(judged)  # only the runs on the GPU decide
    lost = [name for name in doubtful if compute_worst(row.numbers[name].errors) <= WRONG * more.noise.get(name, 0.0)]
    return add_looks(_settle(judged, lost), more)


def _settle(row: JudgedProgram, lost: Sequence[str]) -> JudgedProgram:
    """Returns the row with these outputs undecided, because rounding explains their numbers."""
    undecided = {name: (row.outputs[name][0], Attribution.UNDECIDED.value) for name in lost}
    kept = {kind: words for kind, words in row.contradictions.items() if kind.rpartition("-")[2] not in undecided}
    return replace(row, outputs={**row.outputs, **undecided}, contradictions=kept)


def describe_run(row: DeviceRow, inspection: Inspection, compared: ComparisonAnswer, answer: DeviceAnswer) -> DeviceRow:
    """Returns the row with verdicts, numbers and contradictions between them."""
    numbers = {name: replace(one, unsteady=answer.unsteady.get(name, 0.0)) for name, one in compared.outputs.items()}
    run = DeviceRun(
        device=answer.device,
        count=answer.count,
        runs=RUNS,
        outputs=numbers,
        verdicts={name: verdict.value for name, verdict in inspection.outputs.items()},
        intended_from=PROGRAM_ORDER,
    )
    found = compute_disagreements(inspection.outputs, inspection.findings, None, run)
    rules: Mapping[str, tuple[str, ...]] = {}
    for finding in inspection.findings:
        for name in finding.outputs:
            rules[name] = tuple(dict.fromkeys((*rules.get(name, ()), finding.rule)))
    judged = replace(
        row.judged,
        outputs={
            name: (verdict.value, numbers[name].attribution.value if name in numbers else "none")
            for name, verdict in inspection.outputs.items()
        },
        contradictions={
            f"{one.static.value}-{one.numbers.value}-{one.output}".replace(" ", "-"): one.message for one in found
        },
        notes=inspection.coverage.not_covered,
        unjudged=f"not covered by replay: {compared.not_covered}" if compared.not_covered else "",
    )
    return replace(row, judged=judged, numbers=numbers, rules=rules)


def _keep(artifact: Artifact, folder: Path, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if sum(path.stat().st_size for path in folder.iterdir()) < _ARTIFACT_BYTES:
        with tarfile.open(folder / f"{seed}.tar.xz", "w:xz") as archive:
            archive.add(artifact.directory, str(seed))


if __name__ == "__main__":
    serve_workload(judge_workload)
