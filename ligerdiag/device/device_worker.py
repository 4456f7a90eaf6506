"""The device worker: compiles one case after another for the GPUs of this machine, runs it and times it.

The artifact is built as for a target that XLA knows from a description alone, and its operations have tags, too; but
XLA queries the devices and autotunes on them. Arguments are drawn on the CPU, as for a replay, and copied to the
devices for each run, because a kernel may overwrite them. The program runs several times on each set of random arguments:
the first result is kept for the comparison, and the others should equal it.

Timing comes last, on the arguments of the last draw. The executable has run before, so the clock sees no first load or
allocation. What a kernel overwrites in its arguments stays overwritten, which changes numbers but not times. If the
program donates arguments, each execution gets copies, made on the devices before its clock starts. The clock runs from
the call until every output is ready, so the time includes the host's part: some tens of microseconds, most of the time
of a small program. There are `MOST_RUNS` timed executions, or fewer, at least one, if they and their copies take more
than `BUDGET` seconds.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from ligerdiag.artifacts.cache import hold_key, keep_artifact
from ligerdiag.codec import Json
from ligerdiag.compile.cases.arguments import (
    arrange_mesh,
    build_argument_specs,
    compute_donated,
    draw_arguments,
    read_numbers,
)
from ligerdiag.compile.cases.live_functions import place_meshes
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.lowering.compile_job import add_flags, compute_key, make_artifact
from ligerdiag.compile.lowering.lowered_case import LoweredCase, lower_case
from ligerdiag.device.device_jobs import DeviceAnswer, DeviceRequest, parse_device_request, write_results
from ligerdiag.errors import CompileError, InputError
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import render_answer
from ligerdiag.replay.runs.attribution import compute_error, rank_error
from ligerdiag.replay.runs.case_inputs import compute_reference
from ligerdiag.workers.loop import Answerer, serve

MOST_RUNS = 20
BUDGET = 1.0
"""Seconds after which no further timed execution begins."""


def time_executions(compiled: Callable[..., Any], arguments: Any, *, donates: bool) -> tuple[float, ...]:
    """Returns the milliseconds of each timed execution of the compiled program.

    arguments: the arguments of `compiled`, on the devices. donates: whether the program takes over the bytes of some
    arguments, so that each execution needs copies.
    """
    library: Any = jax
    times: list[float] = []
    began = perf_counter()
    while len(times) < MOST_RUNS and (not times or perf_counter() - began < BUDGET):
        taken = library.block_until_ready(library.tree.map(_copy, arguments)) if donates else arguments
        started = perf_counter()
        results = library.block_until_ready(compiled(*taken))
        times.append((perf_counter() - started) * 1e3)
        del results  # before the next execution: two results may not fit
    return tuple(times)


def _copy(array: Any) -> Any:
    return array.copy()


LEAST_DIFFERENCE = 1e-300
"""The difference that is reported for values that differ in bits but not in numbers, such as 0 and -0."""

type Arrays = dict[str, np.ndarray[Any, Any]]


def run_case(request: DeviceRequest, loader: CaseLoader, log: Path) -> DeviceAnswer:
    """Compiles a case for the GPUs of this machine, runs it and times it. Writes the outputs into the request's
    directory. Raises InputError if there are too few GPUs, and CompileError if compiling or running fails.
    """
    with place_meshes(partial(arrange_gpus, request.compile.case_id)):
        case = loader.find_case(request.compile.source, request.compile.case_id)
    mesh = build_device_mesh(case)
    devices: list[Any] = list(mesh.devices.flat)
    capability = int(str(devices[0].compute_capability).replace(".", ""))
    program = lower_case(case, request.compile.description, capability, mesh=mesh)
    wanted = add_flags(request.compile, case)
    key = compute_key(wanted, program, loader.compute_dependencies())
    store = Path(request.compile.artifacts)
    with hold_key(store, key):
        compiled = make_artifact(wanted, program, key, log, runs=True)
        keep_artifact(Path(request.compile.scratch), store, key)
    specs = build_argument_specs(case, mesh)
    unsteady = dict.fromkeys(program.outputs, 0.0)
    errors: dict[str, list[float]] = {}
    drawn: Any = ()
    for draw in range(request.draws):
        first: Arrays = {}
        with _on_the_cpu():
            drawn = draw_arguments(case, draw)
        for run in range(request.runs):
            results = _run(compiled, program, case, drawn, specs)
            if run:
                _note_differences(unsteady, first, results)
            else:
                first = results
        write_results(Path(request.results), draw, first)
        if case.reference is not None:
            reference = compute_reference(case, draw)
            for name, array in first.items():
                errors.setdefault(name, []).append(compute_error(array, reference[name]))
    with _blame_device(case):
        donates = bool(compute_donated(case))
        times = time_executions(compiled, program.arrange(_put(drawn, specs, donates=donates)), donates=donates)
    return DeviceAnswer(
        key=key,
        device=str(devices[0].device_kind),
        count=len(devices),
        milliseconds=median(times),
        timed_runs=len(times),
        unsteady=unsteady,
        errors={name: tuple(values) for name, values in errors.items()},
    )


_ASKED = "`--device`"


def build_device_mesh(case: Case, *, asked: str = _ASKED) -> Mesh:
    """Returns the case's mesh over the first GPUs of this machine. Raises InputError if JAX finds too few GPUs.

    asked: as for `arrange_gpus`.
    """
    return arrange_gpus(case.id, dict(case.mesh) or {"x": 1}, case.explicit_axes, asked=asked)


def arrange_gpus(case_id: str, sizes: Mapping[str, int], explicit: Sequence[str], *, asked: str = _ASKED) -> Mesh:
    """Returns a mesh of these sizes over the first GPUs of this machine. Raises InputError if JAX finds too few GPUs.

    sizes: mesh axis to size. explicit: the axes that have JAX's type Explicit. asked: the option or command that needs
    the GPUs, for the message.
    """
    needed = prod(sizes.values())
    library: Any = jax
    try:
        devices: list[Any] = library.devices("cuda")
    except RuntimeError as fault:
        raise InputError(
            f"{asked} needs a GPU that JAX can use, and JAX finds none: {fault}".splitlines()[0]
        ) from fault
    if len(devices) < needed:
        raise InputError(f"case `{case_id}` needs {needed} GPUs, and this machine has {len(devices)}")
    return arrange_mesh(devices[:needed], sizes, explicit)


def _on_the_cpu() -> AbstractContextManager[Any]:
    library: Any = jax
    return library.default_device(library.devices("cpu")[0])


def _run(compiled: Any, program: LoweredCase, case: Case, drawn: Any, specs: Any) -> Arrays:
    library: Any = jax
    arguments = program.arrange(_put(drawn, specs, donates=bool(compute_donated(case))))
    with _blame_device(case):
        results = library.block_until_ready(compiled(*arguments))
    return dict(zip(program.outputs, map(read_numbers, library.tree.leaves(results)), strict=True))


def _put(drawn: Any, specs: Any, *, donates: bool) -> Any:
    """Copies the arguments to the devices, waits until they are there, and returns the copies. If nothing is donated, an
    array that is several arguments is copied once, unless its copies are sharded differently.

    specs: a tree like that of the arguments, whose leaves have the sharding that each copy gets. donates: whether the
    program donates arguments: the runtime would then refuse one array as several arguments (LD036).
    """
    library: Any = jax
    copies: dict[tuple[int, Any], Any] = {}

    def put(array: Any, spec: Any) -> Any:
        key = id(array), spec.sharding
        if key not in copies or donates:
            copies[key] = library.device_put(array, spec.sharding)
        return copies[key]

    return library.block_until_ready(library.tree.map(put, drawn, specs))


@contextmanager
def _blame_device(case: Case) -> Generator[None]:
    try:
        yield
    except Exception as fault:
        raise CompileError(f"case `{case.id}` does not run on the device: {fault}".splitlines()[0]) from fault


def _note_differences(unsteady: dict[str, float], first: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    for name, array in again.items():
        if array.tobytes() != first[name].tobytes():
            error = compute_error(array, first[name])
            unsteady[name] = max(unsteady[name], rank_error(error), LEAST_DIFFERENCE)


def prepare() -> Answerer:
    """Imports jax and triton, and returns the function that answers requests. No file of the user's is imported before
    them (see `compile.cases.loader`).
    """
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowered_case import configure_locations
    from ligerdiag.device.device_worker import run_case

    configure_locations(str(Path(__file__).parents[1]))
    loader = CaseLoader(once=True)

    def answer(job: Json, log: Path) -> str:
        return render_answer(run_case(parse_device_request(job), loader, log))

    return answer


if __name__ == "__main__":
    serve(prepare)
