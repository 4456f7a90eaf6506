"""Compares the program of a changed case with the original program, by running both on the same arguments in a worker
process.
"""

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.jobs import Source
from ligerdiag.replay.meaning_worker import MeaningAnswer, MeaningRequest, make_meaning_job
from ligerdiag.replay.replay_service import FindReaders, compute_environment, read_kernel_modules
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import COMPILE_WORKER, Pool
from ligerdiag.workers.templates import Templates

MEANING_WORKER = "ligerdiag.replay.meaning_worker"


def compare_meanings(
    source: Source,
    case_id: str,
    pairs: list[tuple[Artifact, Artifact]],
    *,
    cache: Cache,
    templates: Templates,
    timeout: float,
    find_readers: FindReaders | None = None,
) -> list[MeaningAnswer]:
    """Compares the programs of several pairs of artifacts, in a worker process: returns for each pair whether both programs
    as written compute the same on the case's arguments. An error is not raised: the answer gives it as its reason.
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
                modules = dict(read_kernel_modules(first, cache=cache, find_readers=find_readers))
                modules |= read_kernel_modules(changed, cache=cache, find_readers=find_readers)
                request = MeaningRequest(
                    source=source,
                    case_id=case_id,
                    artifact=str(first.directory),
                    changed=str(changed.directory),
                    modules=modules,
                )
                answers.append(pool.submit(make_meaning_job(request, timeout)).result())
            except LigerdiagError as error:
                answers.append(MeaningAnswer(reason=str(error)))
    return answers
