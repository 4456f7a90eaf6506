"""Compares the program of a case before and after a change of its source. A worker process runs both on the same
arguments.
"""

from collections.abc import Callable
from pathlib import Path

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.errors import LigerdiagError
from ligerdiag.hlo.module import HloModule
from ligerdiag.model.jobs import Source
from ligerdiag.replay.meaning_worker import MeaningAnswer, MeaningRequest, make_meaning_job
from ligerdiag.replay.opaque_calls import MatchedCalls
from ligerdiag.replay.opaque_runs.opaque_meanings import FindEffects, match_calls
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.replay_service import FindReaders, compute_environment, read_kernel_modules
from ligerdiag.replay.runs.case_run import load_programs
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import COMPILE_WORKER, Pool
from ligerdiag.workers.templates import Templates

MEANING_WORKER = "ligerdiag.replay.meaning_worker"

type FindPairEffects = Callable[[HloModule, HloModule], FindEffects]


def compare_meanings(
    source: Source,
    case_id: str,
    pairs: list[tuple[Artifact, Artifact]],
    *,
    cache: Cache,
    templates: Templates,
    timeout: float,
    find_readers: FindReaders | None = None,
    find_effects: FindPairEffects | None = None,
) -> list[MeaningAnswer]:
    """Runs pairs of programs on the same arguments, in a worker process, and compares the outputs of each pair. Returns
    one answer for each pair. An error is not raised: it becomes the `reason` of the answer.

    source, case_id: the case that gives the arguments. pairs: (artifact of the case, artifact of the same case after
    its source was changed). find_readers: as in `replay_artifacts`. find_effects: returns a function that finds the
    effects of a call. With it, opaque functions replace the kernels: stand-ins that read and write the same buffers.
    None runs the kernels themselves.
    """
    answers: list[MeaningAnswer] = []
    with Pool(
        cache=cache,
        toolchain=current_toolchain(),
        jobs=1,
        timeout=timeout,
        module=MEANING_WORKER,
        environment=compute_environment(1),
        templates=templates,
        template=COMPILE_WORKER,
    ) as pool:
        for first, changed in pairs:
            try:
                calls = None if find_effects is None else _match(first, changed, find_effects)
                modules = dict[str, Path]()
                if calls is None:
                    modules |= read_kernel_modules(first, cache=cache, find_readers=find_readers)
                    modules |= read_kernel_modules(changed, cache=cache, find_readers=find_readers)
                request = MeaningRequest(
                    source=source,
                    case_id=case_id,
                    artifact=str(first.directory),
                    changed=str(changed.directory),
                    modules=modules,
                    calls=calls,
                )
                answers.append(pool.submit(make_meaning_job(request, timeout)).result())
            except NotCoveredError as error:
                answers.append(
                    MeaningAnswer(
                        reason=f"no stand-in with the same buffers (an opaque function) can replace a kernel: {error}"
                    )
                )
            except LigerdiagError as error:
                answers.append(MeaningAnswer(reason=str(error)))
    return answers


def _match(first: Artifact, changed: Artifact, find_effects: FindPairEffects) -> MatchedCalls:
    old, new = (load_programs(one).program for one in (first, changed))
    return match_calls(old, new, find_effects(old, new))
