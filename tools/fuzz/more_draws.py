"""Replays several draws of a case's arguments, because the numbers of one draw may hide that an output is wrong.

`python -m tools.fuzz.more_draws` is the worker. In each draw an output's ratio is its error over the largest of a
few samples of program order in which every rounding moves at random (see `runs.rounding`), and at least over the
rounding of one f32. Two samples may both happen to be close to a value; where that leaves the answer open, there are
more samples. Then an output is

- wrong if its ratio exceeds `WRONG` in some draw: the arguments of one draw may take the branch that shows it, or keep
  errors from cancelling, or expose a small term of a large sum;
- right if its ratio is at most `RIGHT` in every draw;
- alike otherwise, and if program order itself is not finite.

Static verdicts play no part. An output that is `trusted` and not right is also compared with the case's reference,
because XLA keeps more precision than bf16 or eight bits have, and so does the reference. Draws continue until each of
the `doubted` outputs is wrong in one of them: at least `LEAST` and at most `MOST` draws.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isfinite, isnan, nan
from pathlib import Path

from ligerdiag.codec import Json, decode_record, encode_record, read_record
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import Job, Source, parse_answer, render_request
from ligerdiag.workers.loop import Answerer, serve

DRAWS_WORKER = "tools.fuzz.more_draws"
LEAST, MOST = 2, 20
"""Numbers of draws; the first is that of every replay."""
RIGHT, WRONG, FAR_OFF = 2.0, 8.0, 1000.0
FEW, MANY = range(2), range(10)
"""Seeds of the samples, at first and where these leave the answer open."""
_FLOOR = 2.0**-24


class Word(StrEnum):
    """The result of the draws for one output."""

    RIGHT = "right"
    WRONG = "wrong"
    ALIKE = "alike"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawsRequest:
    """Request to replay more draws of one artifact."""

    source: Source
    case_id: str
    artifact: str
    """Directory of the artifact."""
    doubted: tuple[str, ...]
    """Names of the outputs until all of which are wrong the draws continue."""
    trusted: tuple[str, ...] = ()
    """Names of the outputs that are also compared with the reference."""
    measured: tuple[str, ...] = ()
    """Names of the outputs whose `noise` is always measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawsAnswer:
    """The result of the draws."""

    words: Mapping[str, Word] = field(default_factory=dict[str, Word])
    """By output name."""
    ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the largest ratio; infinite if only the output is not finite."""
    noise: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to the smallest noise of any draw, at least for the `measured` outputs."""
    draws: int = 0
    not_covered: str = ""
    """The operation that replay does not compute; else empty."""


def make_draws_job(request: DrawsRequest, timeout: float) -> Job[DrawsAnswer]:
    """Returns the job for a worker; `timeout` in seconds."""
    return Job(
        source=request.source,
        name=f"more draws of case `{request.case_id}`",
        render=lambda log: render_request(type(request).__name__, encode_record(request), log),
        parse=lambda line: decode_record(DrawsAnswer, parse_answer(line)),
        timeout=timeout,
    )


def judge_ratios(ratios: Sequence[float]) -> Word:
    """Judges one output by its ratios, NaN in a draw in which program order is not finite."""
    if any(ratio > WRONG for ratio in ratios):
        return Word.WRONG
    return Word.RIGHT if all(ratio <= RIGHT for ratio in ratios) else Word.ALIKE


def compute_ratio(error: float, noise: Sequence[float], *, is_finite: bool) -> float:
    """Returns an output's ratio in one draw. error: NaN if something is not finite. is_finite: whether program order
    is."""
    if not is_finite or not all(map(isfinite, noise)):
        return nan
    return inf if isnan(error) else error / max((*noise, _FLOOR))


def draw_more(case: Case, request: DrawsRequest) -> DrawsAnswer:
    """Replays the artifact on draw after draw."""
    import numpy as np

    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.replay.ops.scope import Array, NotCoveredError
    from ligerdiag.replay.runs.attribution import compute_error, rank_error
    from ligerdiag.replay.runs.case_inputs import compute_reference, draw_arrays
    from ligerdiag.replay.runs.case_run import load_programs, replay_programs
    from ligerdiag.replay.runs.kernels import KernelRunner
    from ligerdiag.replay.runs.rounding import measure_noise

    ratios: dict[str, list[float]] = {}
    least: dict[str, float] = {}
    runner, draw = KernelRunner(check_seconds=0.0), 0
    try:
        programs = load_programs(load_artifact(Path(request.artifact)))
        with np.errstate(all="ignore"):
            while draw < LEAST or (
                draw < MOST and any(judge_ratios(ratios[name]) is not Word.WRONG for name in request.doubted)
            ):
                arguments = draw_arrays(case, draw)
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
                    break  # the first run overwrote a constant, so later runs are another program
    except NotCoveredError as error:
        return DrawsAnswer(not_covered=str(error))
    return DrawsAnswer(
        words={name: judge_ratios(found) for name, found in ratios.items()},
        ratios={name: max(found, key=rank_error) for name, found in ratios.items()},
        noise={name: one for name, one in least.items() if isfinite(one)},
        draws=draw,
    )


def prepare() -> Answerer:
    """Imports jax, triton and numpy before any file of the user's, see `compile.cases.loader`."""
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowered_case import import_kernel_libraries
    from tools.fuzz.more_draws import draw_more

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
