"""The tuning worker: compiles one case after another for the GPUs of this machine and has XLA write down the choices of
its autotuner. It runs nothing but what the autotuner runs.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

from ligerdiag.artifacts.cache import hold_key, keep_artifact
from ligerdiag.codec import Json
from ligerdiag.compile.cases.live_functions import place_meshes
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.lowering.autotuner_choices import FORM, LOAD
from ligerdiag.compile.lowering.compile_job import compute_key, make_artifact
from ligerdiag.compile.lowering.lowered_case import LoweredCase, lower_case
from ligerdiag.device.device_jobs import TuningAnswer, TuningRequest, parse_tuning_request
from ligerdiag.device.device_worker import arrange_gpus, build_device_mesh
from ligerdiag.errors import CompileError
from ligerdiag.model.jobs import Flag, render_answer
from ligerdiag.workers.loop import Answerer, serve

ASKED = "`ligerdiag record-tuning`"
DUMP = "xla_gpu_dump_autotune_results_to"


def tune_case(request: TuningRequest, loader: CaseLoader, log: Path) -> TuningAnswer:
    """Compiles a case with autotuning for the GPUs of this machine. Writes XLA's choices to the file that the request
    names. Raises InputError if there are too few GPUs, and CompileError if compiling fails or XLA writes no file.
    """
    with place_meshes(partial(arrange_gpus, request.compile.case_id, asked=ASKED)):
        case = loader.find_case(request.compile.source, request.compile.case_id)
    mesh = build_device_mesh(case, asked=ASKED)
    devices: list[Any] = list(mesh.devices.flat)
    capability = int(str(devices[0].compute_capability).replace(".", ""))
    program = lower_case(case, request.compile.description, capability, mesh=mesh)
    key = compute_key(
        replace(request.compile, flags={**case.xla_flags, DUMP: ""}), program, loader.compute_dependencies()
    )
    store = Path(request.compile.artifacts)
    with hold_key(store, key):
        _compile(request, program, key, log, case.xla_flags)
        keep_artifact(Path(request.compile.scratch), store, key)
    if not Path(request.results).is_file():
        raise CompileError(f"XLA wrote no results of its autotuner for case `{request.compile.case_id}`")
    return TuningAnswer(key=key, device=str(devices[0].device_kind))


def _compile(request: TuningRequest, program: LoweredCase, key: str, log: Path, own: Mapping[str, Flag]) -> None:
    """Compiles with the form of the results that names the GPU in words, and without a word about the form if XLA does
    not know that option, because it has that form only.
    """
    flags: dict[str, Flag] = {**own, DUMP: request.results, FORM: False}
    if request.earlier:
        flags[LOAD] = request.earlier
    try:
        make_artifact(replace(request.compile, flags=dict(flags)), program, key, log, runs=True)
    except CompileError as error:
        if "No such compile option" not in str(error) or FORM not in str(error):
            raise
        del flags[FORM]
        rmtree(request.compile.scratch)
        make_artifact(replace(request.compile, flags=flags), program, key, log, runs=True)


def prepare() -> Answerer:
    """Imports jax and triton, and returns the function that answers requests. No file of the user's is imported before
    them (see `compile.cases.loader`).
    """
    from ligerdiag.compile.lowering.lowered_case import configure_locations
    from ligerdiag.device.tuning_worker import tune_case

    configure_locations(str(Path(__file__).parents[1]))
    loader = CaseLoader(once=True)

    def answer(job: Json, log: Path) -> str:
        return render_answer(tune_case(parse_tuning_request(job), loader, log))

    return answer


if __name__ == "__main__":
    serve(prepare)
