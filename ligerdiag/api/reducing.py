"""`reduce`: finds the smallest program, or the smallest module of a dump, that still shows a finding or verdict."""

from collections.abc import Callable
from pathlib import Path

from ligerdiag.api.inspecting import select_modules
from ligerdiag.api.judging import ignore_progress
from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.scratch_folders import ScratchFolder
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.compile.compile_service import compute_sources_sha256
from ligerdiag.dumps.find import parse_dump_name
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.ending import Ending, RunEnded, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.inspection.module_inspection import InspectionRequest
from ligerdiag.model.jobs import Source
from ligerdiag.reduce.dump_reduction import DumpReducer, ReducedDump
from ligerdiag.reduce.hlo_edits import ModuleSize
from ligerdiag.reduce.reduce_case import CaseReducer, Reduced
from ligerdiag.reduce.reduced_program import Program, compute_size
from ligerdiag.reduce.trace_jobs import TRACE_WORKER, make_hlo_text_job
from ligerdiag.replay.replay_service import ReplayOptions
from ligerdiag.run_options import ReduceOptions
from ligerdiag.sandbox.inspector import SandboxedInspector
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.workers.pool import Pool

type OnLine = Callable[[str], None]


def reduce(options: ReduceOptions, on_line: OnLine | None = None) -> tuple[Reduced, Ending | None]:
    """Reduces one case. Returns the result and the event that ended the search early, or None if the search is complete.

    on_line: called with a line of text after each step that made the program smaller. Raises InputError if the selector
    names no case or several. Also raises it if the case has no finding or other symptom to keep, or if its program cannot
    be printed.
    Raises RunEnded if the run was ended before anything was known.
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

    reduced: Reduced | None = None
    ending: Ending | None = None
    try:
        with runner:
            started: list[CaseReducer] = []
            with work_until_ended() as work:
                cases = runner.discover([options.selector])
                if len(cases) != 1:
                    raise InputError(
                        f"expected the id of one case, such as `{cases[0].id}`, but got {len(cases)} cases"
                    )
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
            ending = work.ending
            try:
                reduced = started[0].finish() if started else None
            except KeyboardInterrupt:  # a second Ctrl-C
                reduced, ending = started[0].finish(is_brief=True), ending or Ending.INTERRUPT
    except KeyboardInterrupt:  # a second Ctrl-C while the workers end
        if reduced is None:
            raise
        ending = ending or Ending.INTERRUPT
    if reduced is None:
        assert ending is not None
        raise RunEnded(ending)
    return reduced, ending


_MODULE_ENDINGS = (".hlo", ".txt", ".pb", ".gz")


def is_dump(selector: str) -> bool:
    """Returns whether the selector is a path of XLA's dumps: the file of a module, or a folder. Otherwise it selects a
    case.
    """
    path = Path(selector)
    if path.is_dir():
        return any(parse_dump_name(one.name) is not None for one in path.iterdir())
    return path.is_file() and path.suffix in _MODULE_ENDINGS


def reduce_dump(options: ReduceOptions, on_line: OnLine | None = None) -> tuple[ReducedDump, Ending | None]:
    """Reduces the module of a dump, given by its path `options.selector`.

    Returns the result and the event that ended the search early, or None if the search is complete. on_line: as for
    `reduce`.
    Raises InputError if the path has several modules, or if the module has no finding to keep. Raises RunEnded if the run
    was ended before anything was known.
    """
    if options.numbers or options.toolchains:
        raise InputError("a dump is not compiled again: leave out `--numbers` and `--toolchains`")
    cache = Cache(options.cache_directory)
    request = InspectionRequest(timeout=options.timeout, declared=options.effects)
    toolchain = provide_toolchain(DEFAULT, cache, lambda step: None)

    def report(size: ModuleSize, step: str, candidates: int) -> None:
        if on_line is not None:
            on_line(f"{step}: {size} ({candidates} candidates)")

    folder = ScratchFolder()
    try:
        with (
            SandboxedInspector(request, cache=cache) as inspector,
            Translator(cache=cache) as translator,
            Pool(cache=cache, toolchain=toolchain, jobs=1, module=TRACE_WORKER) as pool,
        ):
            source = Source(module="HLO text", root="/")
            selection = select_modules([Path(options.selector)], "", inspector.count_modules)
            if len(selection.modules) != 1:
                ids = ", ".join(f"`{one.id}`" for one in selection.modules[:5])
                raise InputError(f"expected a dump of one module but got {len(selection.modules)}: give a file ({ids})")
            reducer = DumpReducer(
                files=selection.modules[0],
                inspector=inspector,
                translator=translator,
                print_module=lambda path: pool.submit(make_hlo_text_job(str(path), source)).result().text,
                folder=folder.path / "candidate",
                steps_file=options.output.with_suffix(".steps"),
                fingerprint=compute_sources_sha256(["."]),
                rule=options.rule,
                report=report,
            )
            with work_until_ended() as work:
                reducer.run()
            reduced = reducer.finish()
    finally:
        folder.remove()
    if reduced is None:
        assert work.ending is not None
        raise RunEnded(work.ending)
    return reduced, work.ending
