"""Decides, in a worker, about outputs that miss some hidden writes and see others.

Such an output is compared with the prediction that exactly those writes are missed that its findings name (see
`runs.partial_run`). It takes three runs, and only programs get them whose usual numbers say nothing about such an output
(`report.agreement.find_partly_missed`). A result is kept in the cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.artifacts.cache import REPLAYS, Cache, get_program
from ligerdiag.codec import FieldError, encode_record, read_record
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.findings import OutputNumbers, Replay
from ligerdiag.model.jobs import WritePlace
from ligerdiag.model.report import OnProgress
from ligerdiag.replay.replay_service import (
    OVERRUN_FACTOR,
    REPLAY_WORKER,
    SLACK_BYTES,
    FindReaders,
    ReplayOptions,
    ReplayTask,
    compute_circumstances,
    compute_environment,
    make_event,
    read_kernel_modules,
)
from ligerdiag.replay.replay_worker import PartialRequest, make_partial_job
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import COMPILE_WORKER, Pool
from ligerdiag.workers.templates import Templates

_PHASE = "replay without some writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialTask:
    """A replayed case, with the outputs about which its replay says too little."""

    task: ReplayTask
    replay: Replay
    lost: Mapping[str, tuple[WritePlace, ...]]
    """Maps the name of each of these outputs to the hidden writes that its findings name."""


def compare_artifacts_partly(
    tasks: Sequence[PartialTask],
    options: ReplayOptions,
    *,
    cache: Cache,
    report_progress: OnProgress,
    templates: Templates | None = None,
    find_readers: FindReaders | None = None,
) -> list[Mapping[str, OutputNumbers]]:
    """Returns, for each task, the numbers of the outputs in `PartialTask.lost`; empty if they could not be computed, which
    leaves undecided what was undecided. templates, find_readers: see `replay_service.replay_artifacts`.
    """
    circumstances = compute_circumstances(current_toolchain())
    questions = [_make_question(one) | circumstances for one in tasks]
    found = [None if options.refresh else _find_kept(cache, question) for question in questions]
    left = [number for number, one in enumerate(found) if one is None]
    if left:
        with Pool(
            cache=cache,
            toolchain=current_toolchain(),
            jobs=1,
            timeout=options.timeout,
            memory_limit=2 * max(tasks[number].replay.estimated_bytes for number in left) + SLACK_BYTES,
            module=REPLAY_WORKER,
            environment=compute_environment(1),
            templates=templates,
            template=COMPILE_WORKER,
        ) as pool:
            for done, number in enumerate(left):
                one = tasks[number]
                report_progress(make_event(_PHASE, "started", one.task, done, len(left)))
                timeout = max(options.timeout, OVERRUN_FACTOR * one.replay.estimated_seconds)
                try:
                    request = PartialRequest(
                        source=one.task.case.source,
                        case_id=one.task.case.id,
                        artifact=str(one.task.artifact.directory),
                        lost=one.lost,
                        modules=read_kernel_modules(one.task.artifact, cache=cache, find_readers=find_readers),
                    )
                    answer = pool.submit(make_partial_job(request, timeout)).result()
                except LigerdiagError:
                    pass
                else:
                    found[number] = answer.outputs
                    cache.keep_answer(
                        questions[number],
                        answer.dependencies,
                        {"partial": encode_record(_Kept(answer.outputs))},
                        REPLAYS,
                    )
                report_progress(make_event(_PHASE, "finished", one.task, done + 1, len(left)))
    return [one or {} for one in found]


@dataclass(frozen=True, slots=True)
class _Kept:
    outputs: Mapping[str, OutputNumbers]


def _make_question(one: PartialTask) -> dict[str, object]:
    return {
        "question": "partial replay",
        "artifact": get_program(one.task.artifact.provenance.key),
        "draws": one.task.case.draws,
        "lost": {name: [[list(path), operand] for path, operand in sorted(each)] for name, each in one.lost.items()},
    }


def _find_kept(cache: Cache, question: Mapping[str, object]) -> Mapping[str, OutputNumbers] | None:
    answer = cache.find_answer(question, REPLAYS)
    try:
        return None if answer is None else read_record(_Kept, answer, "partial").outputs
    except FieldError:
        return None
