"""`reduce`: finds the smallest program that still shows what a case shows."""

from collections.abc import Callable

from ligerdiag.api.judging import ignore_progress
from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.ending import Ending, RunEnded, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.reduce.reduce_case import CaseReducer, Reduced
from ligerdiag.reduce.reduced_program import Program, compute_size
from ligerdiag.replay.replay_service import ReplayOptions
from ligerdiag.run_options import ReduceOptions
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.toolchain_table import DEFAULT

type OnLine = Callable[[str], None]


def reduce(options: ReduceOptions, on_line: OnLine | None = None) -> tuple[Reduced, Ending | None]:
    """Reduces one case. Returns the result, and what ended the search before it was complete, if anything did.

    on_line: called with a line of text after each step that made the program smaller. Raises InputError if the selector
    names no case or several, if the case shows nothing to keep, or if its program cannot be printed; RunEnded if the
    run was ended before anything was known.
    """
    toolchains = options.toolchains or (DEFAULT,)
    if len(toolchains) > 2:
        raise InputError(f"expected one toolchain or two but got {len(toolchains)}: {', '.join(toolchains)}")
    target = load_target(options.target)
    runner = TrialRunner(
        cache=Cache(options.cache_directory),
        jobs=options.jobs,
        timeout=options.timeout,
        report_progress=ignore_progress,
        declared=options.effects,
    )

    def report(program: Program, step: str, candidates: int) -> None:
        if on_line is not None:
            on_line(f"{step}: {compute_size(program)} ({candidates} candidates)")

    with runner:
        started: list[CaseReducer] = []
        with work_until_ended() as work:
            cases = runner.discover([options.selector])
            if len(cases) != 1:
                raise InputError(f"expected the id of one case, such as `{cases[0].id}`, but got {len(cases)} cases")
            reducer = CaseReducer(
                runner=runner,
                case=cases[0],
                target=target,
                toolchains=toolchains,
                replay=ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs),
                steps=options.output.with_suffix(".steps"),
                rule=options.rule,
                numbers=options.numbers,
                report=report,
            )
            started.append(reducer)
            reducer.run()
        reduced = started[0].finish() if started else None
    if reduced is None:
        assert work.ending is not None
        raise RunEnded(work.ending)
    return reduced, work.ending
