"""Compares the schedule with a prediction in which single hidden writes are missed, and all others seen.

The stale prediction of a replay assumes that no read sees any hidden write. It does not fit an output that misses some
hidden writes and sees others, such as a product with one hidden write for each factor. Here the program runs in program
order again, and only those writes are left out that the findings on the output name.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ligerdiag.model.findings import OutputNumbers
from ligerdiag.model.jobs import WritePlace
from ligerdiag.replay.ops.scope import Array, Multiply
from ligerdiag.replay.runs.attribution import compare_output
from ligerdiag.replay.runs.case_run import Programs, compute_tolerances, run_schedule, split_arguments
from ligerdiag.replay.runs.kernel_memo import REMEMBERED_BYTES, RememberedKernels
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.program import run_program
from ligerdiag.replay.runs.schedule import ScheduleRunner


def compare_partly(
    programs: Programs,
    arguments: Sequence[Array],
    runner: KernelRunner,
    lost: Mapping[str, frozenset[WritePlace]],
    multiply: Multiply,
) -> dict[str, OutputNumbers]:
    """Returns the numbers of each output in `lost`, by its name. Their stale prediction is the output of program order
    without the given hidden writes. Raises NotCoveredError.

    arguments: whole arrays, one for each input of the program in order. lost: maps the name of an output to the hidden
    writes that no read sees; the program runs once for each different set.
    """
    signature = programs.signature
    kernels = RememberedKernels(runner, REMEMBERED_BYTES)

    def predict(writes: frozenset[WritePlace]) -> dict[str, Array]:
        outputs = run_program(
            programs.program, arguments, kernels, lost=writes, devices=signature.devices, multiply=multiply
        )
        return dict(zip(signature.outputs, outputs, strict=True))

    with np.errstate(all="ignore"):
        intended = predict(frozenset())
        predicted = {writes: predict(writes) for writes in dict.fromkeys(lost.values())}
        schedule = ScheduleRunner(
            module=programs.optimized,
            buffers=programs.buffers,
            kernels=kernels,
            devices=signature.devices,
            most={},
            multiply=multiply,
        )
        actual = run_schedule(schedule, signature, split_arguments(signature, arguments))
        tolerances = compute_tolerances(programs, intended)
        return {
            name: compare_output(actual[name][0], intended[name], predicted[writes][name], tolerance=tolerances[name])
            for name, writes in lost.items()
        }
