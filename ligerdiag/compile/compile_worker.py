"""The compile worker, `python -m ligerdiag.compile.compile_worker`: lists the cases of a source and compiles them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ligerdiag.codec import Json
from ligerdiag.model.jobs import CompileRequest, DiscoverAnswer, DiscoverRequest, parse_request, render_answer
from ligerdiag.workers.loop import Answerer, serve
from ligerdiag.workers.outside_reads import OUTSIDE_READS


def prepare() -> Answerer:
    """Imports jax and triton, and returns the function that answers requests. No file of the user's is imported before
    them (see `cases.loader`).
    """
    from ligerdiag.compile.cases.plugin import load_library, prepare_plugin

    prepare_plugin()
    from ligerdiag.compile.cases.device_queries import import_as, install_answers, note_question
    from ligerdiag.compile.cases.live_functions import build_abstract_mesh, place_meshes
    from ligerdiag.compile.cases.loader import CaseLoader, describe_case, note_own_modules
    from ligerdiag.compile.cases.printed import record_prints
    from ligerdiag.compile.lowering.compile_job import compile_case
    from ligerdiag.compile.lowering.lowered_case import configure_locations, import_kernel_libraries
    from ligerdiag.compile.lowering.other_kernels import drop_instantiation
    from ligerdiag.hlo.custom_calls import read_table

    import_kernel_libraries()
    load_library()
    drop_instantiation()
    install_answers()
    package = Path(__file__).parents[1]
    configure_locations(str(package / "compile"), str(package / "workers"))
    read_table()
    note_own_modules()
    loader = CaseLoader(once=True)

    def build_later(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
        note_question()  # a compile needs another worker, which knows the devices
        return build_abstract_mesh(sizes, explicit)

    def answer(job: Json, log: Path) -> str:
        match parse_request(job):
            case DiscoverRequest(source=source):
                with record_prints() as printed, import_as("", ()), place_meshes(build_later):
                    loaded = loader.load(source)
                cases = tuple(describe_case(case, source) for case in loaded.values())
                dependencies = loader.compute_dependencies()
                text = "".join((printed.text, *OUTSIDE_READS.get_notes()))
                return render_answer(DiscoverAnswer(cases=cases, dependencies=dependencies, printed=text))
            case CompileRequest() as request:
                return render_answer(compile_case(request, loader, log))

    return answer


if __name__ == "__main__":
    serve(prepare)
