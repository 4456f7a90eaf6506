"""A substitute for a device: the schedule itself, replayed in a separate process.

Whether Triton interprets kernels is decided at its import.
"""

from pathlib import Path
from typing import Any

type Arrays = dict[str, Any]
type Draw = dict[str, Arrays]
"""`intended`, `stale` and `actual`, by output name."""


def replay_draws(source: Any, case_id: str, directory: str, draws: int) -> tuple[Any, list[Draw]]:
    """Returns the record of the case's replay, and the three runs on each draw, all of it picklable."""
    import jax
    import numpy as np

    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.compile.cases.arguments import draw_arguments
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.replay.runs.case_inputs import compute_case_inputs
    from ligerdiag.replay.runs.case_run import load_programs, replay_case, replay_programs
    from ligerdiag.replay.runs.kernels import KernelRunner

    case, artifact = CaseLoader().load(source)[case_id], load_artifact(Path(directory))
    record = replay_case(artifact, compute_case_inputs(case), rows=False)
    programs, found = load_programs(artifact), []
    runner = KernelRunner()
    for draw in range(draws):
        arguments = [np.asarray(leaf) for leaf in jax.tree.leaves(draw_arguments(case, draw))]
        runs = replay_programs(programs, arguments, runner)
        actual = {name: copies[0] for name, copies in runs.actual.items()}
        found.append({"intended": dict(runs.intended), "stale": dict(runs.stale), "actual": actual})
    return record, found
