"""The worker that traces the program of a case, `python -m ligerdiag.reduce.trace_worker`."""

import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ligerdiag.codec import Json
from ligerdiag.errors import CaseError, LigerdiagError, describe_fault
from ligerdiag.model.case import Arg, Case, Draw
from ligerdiag.model.jobs import render_answer
from ligerdiag.reduce.pallas_call_text import PallasCalls
from ligerdiag.reduce.reduced_program import Program, ReducedArgument
from ligerdiag.reduce.trace_jobs import HloTextAnswer, HloTextRequest, TraceAnswer, TraceRequest, parse_reduce_request
from ligerdiag.workers.loop import Answerer, serve


def prepare() -> Answerer:
    """Imports jax and triton, before any file of the user, and returns the function that answers requests.

    `compile.cases.loader` says why the order of the imports matters.
    """
    from ligerdiag.compile.cases.plugin import prepare_plugin

    prepare_plugin()
    from ligerdiag.compile.cases.device_queries import install_answers
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowered_case import configure_locations, import_kernel_libraries

    import_kernel_libraries()
    install_answers()
    configure_locations(str(Path(__file__).parents[1]))
    loader, pallas = CaseLoader(once=True), PallasCalls()

    def answer(job: Json, log: Path) -> str:
        del log
        match parse_reduce_request(job):
            case HloTextRequest(path=path):
                return render_answer(HloTextAnswer(text=_print_module(Path(path))))
            case TraceRequest() as request:
                return render_answer(_trace(request, loader, pallas))

    return answer


def _trace(request: TraceRequest, loader: Any, pallas: PallasCalls) -> TraceAnswer:
    """Returns the program of the case. pallas: where the worker keeps the calls of Pallas; modules that it has imported
    write to it. Raises CaseError if its function raises, which it may do for other sizes."""
    import jax

    from ligerdiag.compile.cases.arguments import (
        build_argument_specs,
        build_mesh,
        compute_input_names,
        compute_output_names,
    )
    from ligerdiag.compile.cases.device_queries import answer_as, import_as
    from ligerdiag.compile.cases.known_fields import fit_description
    from ligerdiag.compile.cases.live_functions import place_meshes
    from ligerdiag.compile.lowering.jax_versions import assume_gpu, enter_mesh
    from ligerdiag.compile.lowering.other_kernels import assume_gpu_of_other_kernels
    from ligerdiag.reduce.jaxpr_reader import JaxprReader, read_type
    from ligerdiag.toolchains.gpu_targets import read_architecture

    library: Any = jax
    description = fit_description(request.description).text

    def build(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
        return build_mesh(sizes, description, explicit)

    devices = build({"x": 1}, ()).devices.flat
    with pallas.record(), import_as(description, devices), place_meshes(build):
        case: Case = loader.find_case(request.source, request.case_id)
    resized = _Resizer(dict(request.sizes))
    case = replace(case, args=library.tree.map(resized.change, case.args))
    mesh = build(dict(case.mesh) or {"x": 1}, case.explicit_axes)
    specs = build_argument_specs(case, mesh)
    library.clear_caches()
    reader = JaxprReader(pallas=pallas)
    with (
        pallas.record(),
        answer_as(mesh.devices.flat, description),
        assume_gpu(request.compute_capability, read_architecture(description)),
        assume_gpu_of_other_kernels(request.compute_capability),
        enter_mesh(mesh) if case.mesh else nullcontext(),
    ):
        try:
            traced = library.jit(case.function, keep_unused=True).trace(*specs)
        except LigerdiagError:
            raise
        except Exception as fault:
            traceback.print_exception(fault)
            raise CaseError(f"the function of case `{case.id}` raises: {describe_fault(fault)}") from fault
        names = _make_names(compute_input_names(case.function, specs))
        body = reader.read(traced.jaxpr, names)
    leaves: list[Arg] = library.tree.leaves(case.args)
    program = Program(
        name="program",
        body=body,
        arguments=tuple(_describe_argument(leaf) for leaf in leaves),
        outputs=compute_output_names(traced.out_info),
        definitions=dict(reader.definitions),
        imports=tuple(sorted(set(reader.imports))),
        mesh={str(axis): int(size) for axis, size in case.mesh.items()},
        explicit_axes=tuple(case.explicit_axes),
        inputs=tuple(read_type(spec) for spec in library.tree.leaves(specs)),
    )
    return TraceAnswer(program=program)


def _print_module(path: Path) -> str:
    """Returns the text of an artifact's optimized module."""
    import importlib

    from ligerdiag.hlo.xla_pb2 import HloProto

    proto = HloProto()
    proto.ParseFromString(path.read_bytes())
    library: Any = importlib.import_module("jaxlib._hlo")
    module = library.HloModule.from_serialized_hlo_module_proto(proto.hlo_module.SerializeToString())
    return str(module.to_string())


class _Resizer:
    """Gives arguments other sizes."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self._sizes = sizes

    def change(self, arg: Arg) -> Arg:
        shape = tuple(self._sizes.get(size, size) for size in arg.shape)
        draw = arg.draw
        if isinstance(draw, Draw):
            if draw.kind == "randint" and draw.high in self._sizes:
                draw = replace(draw, high=self._sizes[int(draw.high)])
        elif shape != arg.shape and not callable(draw):
            draw = Draw()
        return replace(arg, shape=shape, draw=draw)


def _make_names(names: Sequence[str]) -> list[str]:
    """Returns an identifier for each argument; none is `t` with a number, as intermediate values are called."""
    made: list[str] = []
    for name in names:
        word = "".join(c if c.isalnum() else "_" for c in name.split(".")[-1]).strip("_") or "x"
        word = word if not word[0].isdigit() else f"x{word}"
        word = f"{word}_" if word in _TAKEN or (word[0] == "t" and word[1:].isdigit()) else word
        while word in made:
            word += "_"
        made.append(word)
    return made


_TAKEN = frozenset(("jax", "jnp", "lax", "np", "P", "jt", "tl", "triton", "program", "input", "lambda", "in", "is"))


def _describe_argument(arg: Arg) -> ReducedArgument:
    draw = arg.draw if isinstance(arg.draw, Draw) else Draw()
    partition = repr(arg.partition).replace("'", '"') if any(arg.partition) else ""
    return ReducedArgument(values=draw, partition=partition, donated=arg.donate)


if __name__ == "__main__":
    serve(prepare)
