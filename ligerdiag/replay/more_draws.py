"""Both sides of `python -m ligerdiag.replay.more_draws`: is a schedule's output what program order gives, or do one
draw's numbers not show that it is not? A replay of several draws of the arguments, each within what roundings come to.

1. In each draw an output's *ratio* is its error over the largest of a few samples of program order in which every
   rounding is moved at random (see `runs.rounding`), and over that of one f32 at least. Of two samples of a number both
   may
   be near it by chance: where that leaves it open, there are more.
2. wrong   the ratio is above `WRONG` in some draw: in one draw the arguments take the branch that shows it, errors do
not
           cancel, or a small term of a large sum is off by more than any rounding
   right   the ratio is at most `RIGHT` in every draw
   alike   else, and where program order itself is not finite
   Verdicts are not asked.
3. An output that is `trusted` and is not right so is held against the case's reference, too: XLA keeps more precision
   than bf16 or eight bits have, and so it does in the formulas.
4. Draws follow each other until each of the `doubted` outputs is wrong in one of them, `LEAST` at least and `MOST` at
most.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import Any

from ligerdiag.codec import Json, decode_record, encode_record, read_record
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import Job, Source, parse_answer, render_request
from ligerdiag.workers.loop import Answerer, serve

DRAWS_WORKER = "ligerdiag.replay.more_draws"
LEAST, MOST = 2, 20
"""Draws, of which the first is that of every replay."""
RIGHT, WRONG, FAR_OFF = 2.0, 8.0, 1000.0
FEW, MANY = range(2), range(10)
"""Seeds of the samples; see 1."""
_FLOOR = 2.0**-24


class Word(StrEnum):
    """See 2."""

    RIGHT = "right"
    WRONG = "wrong"
    ALIKE = "alike"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawsRequest:
    """Asks for more draws of one artifact."""

    source: Source
    case_id: str
    artifact: str
    """Its directory."""
    doubted: tuple[str, ...]
    """Names of outputs; see 4."""
    trusted: tuple[str, ...] = ()
    """Names of outputs; see 3."""
    measured: tuple[str, ...] = ()
    """Names of outputs whose `noise` is wanted in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawsAnswer:
    """What the draws say."""

    words: Mapping[str, Word] = field(default_factory=dict[str, Word])
    """By output name."""
    ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the largest ratio; infinite where the output alone is not finite."""
    noise: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the least, over the draws, of what its roundings come to there; see 1. Of the `measured` at
    least."""
    draws: int = 0
    not_covered: str = ""
    """What replay does not compute."""


def make_draws_job(request: DrawsRequest, timeout: float) -> Job[DrawsAnswer]:
    """Returns the job that asks a worker; `timeout` in seconds."""
    return Job(
        source=request.source,
        name=f"more draws of case `{request.case_id}`",
        render=lambda log: render_request(type(request).__name__, encode_record(request), log),
        parse=lambda line: decode_record(DrawsAnswer, parse_answer(line)),
        timeout=timeout,
    )


def judge_ratios(ratios: Sequence[float]) -> Word:
    """See 2. ratios: of one output, NaN in a draw in which program order is not finite."""
    if any(ratio > WRONG for ratio in ratios):
        return Word.WRONG
    return Word.RIGHT if all(ratio <= RIGHT for ratio in ratios) else Word.ALIKE


def compute_ratio(error: float, noise: Sequence[float], *, is_finite: bool) -> float:
    """See 1. error: NaN where something is not finite. is_finite: program order is."""
    if not is_finite or not all(map(isfinite, noise)):
        return nan
    return inf if isnan(error) else error / max((*noise, _FLOOR))


def draw_more(case: Case, request: DrawsRequest) -> DrawsAnswer:
    """Replays the artifact on draw after draw, 4."""
    import jax
    import numpy as np

    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.compile.cases.arguments import draw_arguments
    from ligerdiag.replay.ops.scope import Array, NotCoveredError
    from ligerdiag.replay.runs.attribution import compute_error, rank_error
    from ligerdiag.replay.runs.case_inputs import compute_reference
    from ligerdiag.replay.runs.case_run import load_programs, replay_programs
    from ligerdiag.replay.runs.kernels import KernelRunner
    from ligerdiag.replay.runs.rounding import measure_noise

    library: Any = jax
    ratios: dict[str, list[float]] = {}
    least: dict[str, float] = {}
    runner, draw = KernelRunner(check_seconds=0.0), 0
    try:
        programs = load_programs(load_artifact(Path(request.artifact)))
        with np.errstate(all="ignore"):
            while draw < LEAST or (
                draw < MOST and any(judge_ratios(ratios[name]) is not Word.WRONG for name in request.doubted)
            ):
                arguments = [np.asarray(leaf) for leaf in library.tree.leaves(draw_arguments(case, draw))]
                runs = replay_programs(programs, arguments, runner)
                errors = {
                    name: max((compute_error(copy, runs.intended[name]) for copy in copies), key=rank_error)
                    for name, copies in runs.actual.items()
                }
                finite = {name: bool(np.isfinite(runs.intended[name].astype(np.float64)).all()) for name in errors}
                noise: Mapping[str, Sequence[float]] = {}
                for samples in (FEW, MANY) if request.measured or any(errors.values()) else ():
                    noise = measure_noise(
                        programs.program,
                        arguments,
                        runner,
                        runs.intended,
                        devices=programs.signature.devices,
                        samples=samples,
                    )
                    open_ = (compute_ratio(errors[name], noise[name], is_finite=finite[name]) for name in errors)
                    if not any(RIGHT < ratio < FAR_OFF for ratio in open_):
                        break
                for name, found in noise.items():
                    least[name] = min(least.get(name, inf), max(found))
                reference: Mapping[str, Array] = {}
                for name, error in errors.items():
                    ratio = compute_ratio(error, noise.get(name, ()), is_finite=finite[name])
                    if name in request.trusted and ratio > RIGHT and case.reference is not None:
                        reference = reference or compute_reference(case, draw)
                        other = max(
                            (compute_error(copy, reference[name]) for copy in runs.actual[name]), key=rank_error
                        )
                        ratio = min(ratio, compute_ratio(other, noise.get(name, ()), is_finite=finite[name]))
                    ratios.setdefault(name, []).append(ratio)
                draw += 1
                if runs.again:
                    break  # the first run has overwritten a constant: what comes later is another program
    except NotCoveredError as error:
        return DrawsAnswer(not_covered=str(error))
    return DrawsAnswer(
        words={name: judge_ratios(found) for name, found in ratios.items()},
        ratios={name: max(found, key=rank_error) for name, found in ratios.items()},
        noise={name: one for name, one in least.items() if isfinite(one)},
        draws=draw,
    )


def prepare() -> Answerer:
    """Imports jax, triton and numpy, before any file of the user's: see case_loader."""
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowering import import_kernel_libraries
    from ligerdiag.replay.more_draws import draw_more

    import_kernel_libraries()
    loader = CaseLoader(once=True)

    def answer(job: Json, log: Path) -> str:
        del log
        request = read_record(DrawsRequest, job, "request")
        case = loader.find_case(request.source, request.case_id)
        found = draw_more(case, request)
        return json.dumps({"answer": encode_record(found)}) + "\n"

    return answer


if __name__ == "__main__":
    serve(prepare)
