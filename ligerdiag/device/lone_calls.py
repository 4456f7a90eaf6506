"""Finds the kernel calls of a live function, lowers each by itself and, on request, tries each on canaries.

`opcheck_worker` runs this in a process of its own.
"""

import base64
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import jax
import numpy as np

from ligerdiag.compile.cases.arguments import arrange_mesh, build_argument_specs, build_mesh, draw_arguments
from ligerdiag.compile.cases.array_records import is_key
from ligerdiag.compile.cases.device_queries import answer_as, import_as
from ligerdiag.compile.cases.known_fields import fit_description
from ligerdiag.compile.cases.live_functions import place_meshes
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.cases.normalize import normalize_case
from ligerdiag.compile.lowering.call_names import name_calls
from ligerdiag.compile.lowering.jax_versions import (
    assume_gpu,
    enter_mesh,
    find_ffi_primitives,
    find_kernel_primitives,
    is_reference,
    translate_to_hlo,
)
from ligerdiag.compile.lowering.kernel_calls import find_traced_calls, make_function, make_shape
from ligerdiag.compile.lowering.traced_calls import Bind, TracedCall, compute_kernel_name, read_traceback, record_binds
from ligerdiag.device.canary_runs import LoneKernel, compile_kernel
from ligerdiag.device.device_worker import arrange_gpus
from ligerdiag.device.kernel_equations import KERNELS, EagerEvaluation, iterate_kernel_equations
from ligerdiag.device.opcheck_jobs import OpcheckAnswer, OpcheckRequest
from ligerdiag.errors import CaseError, LigerdiagError, describe_fault
from ligerdiag.model.case import Case
from ligerdiag.model.findings import SourceLine
from ligerdiag.model.opcheck_report import CallRun, FoundCall, RunFailure


def find_calls(request: OpcheckRequest, loader: CaseLoader) -> OpcheckAnswer:
    """Returns the kernel calls of the source's only case and, if the request names a platform, what their runs on it
    showed.

    Raises CaseError if the function raises while JAX traces it, InputError if its arguments do not fit or there is no
    device.
    """
    library: Any = jax
    build, answering = _choose_devices(request)
    with answering({}, ()), place_meshes(build):
        (case,) = loader.load(request.source).values()
    case = normalize_case(case)
    mesh = build(dict(case.mesh) or {"x": 1}, case.explicit_axes)
    devices: list[Any] = list(mesh.devices.flat)
    capability = request.compute_capability or _read_capability(devices[0])
    specs = build_argument_specs(case, mesh)
    library.clear_caches()
    with (
        answering(dict(case.mesh), case.explicit_axes),
        assume_gpu(capability) if capability else nullcontext(),
        enter_mesh(mesh) if case.mesh else nullcontext(),
    ):
        try:
            kernels = [*find_kernel_primitives(), *find_ffi_primitives()]
            with record_binds(kernels) as binds, name_calls(kernels):  # JAX may bind a call again, without its lines
                traced = library.jit(case.function, keep_unused=True).trace(*specs)
        except LigerdiagError:
            raise
        except Exception as fault:
            traceback.print_exception(fault)
            raise CaseError(f"the function `{case.name}` raises: {describe_fault(fault)}") from fault
        closed: Any = traced.jaxpr
        equations = list(iterate_kernel_equations(closed.jaxpr))
        dropped = [call for call in find_traced_calls(closed, binds, KERNELS) if not call.traced]
        platform = request.platform or "cuda"
        lowered = [_lower(equation, platform) for _, equation in equations]
        missing = [_lower_bind(_find_bind(one, binds), platform, request) for one in dropped]
        runs = _Runs()
        if request.platform and len(devices) > 1:
            runs = _Runs(missed={id(one): f"the program is for {len(devices)} devices" for _, one in equations})
        elif request.platform:
            runs = _run_calls(closed, case, devices[0], request)
    calls = [
        FoundCall(
            kernel=compute_kernel_name(equation.params),
            source=_find_source(equation),
            module=module,
            trouble=trouble,
            is_dropped=_is_dropped(jaxpr, equation),
            run=runs.found.get(id(equation)),
            not_run=runs.missed.get(id(equation), ""),
            failure=runs.failures.get(id(equation), RunFailure.NONE),
        )
        for (jaxpr, equation), (module, trouble) in zip(equations, lowered, strict=True)
    ]
    return OpcheckAnswer(calls=(*calls, *missing), device=str(devices[0].device_kind) if runs.found else "")


type _Build = Callable[[Mapping[str, int], Sequence[str]], Any]
type _Answering = Callable[[Mapping[str, int], Sequence[str]], Any]


def _choose_devices(request: OpcheckRequest) -> tuple[_Build, _Answering]:
    """Returns a function that arranges the devices of a mesh, and one that returns a context in which JAX reports these
    devices to the user's program.
    """
    library: Any = jax
    if request.platform == "cuda":
        return partial(arrange_gpus, "opcheck"), lambda sizes, explicit: nullcontext()
    if request.platform:

        def build_here(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
            return arrange_mesh(library.devices("cpu")[: prod(sizes.values())], sizes, explicit)

        return build_here, lambda sizes, explicit: nullcontext()
    description = fit_description(request.description).text

    def build(sizes: Mapping[str, int], explicit: Sequence[str]) -> Any:
        return build_mesh(sizes, description, explicit)

    @contextmanager
    def answering(sizes: Mapping[str, int], explicit: Sequence[str]) -> Generator[None]:
        devices = build(sizes, explicit).devices.flat
        with import_as(description, devices), answer_as(devices, description):
            yield

    return build, answering


def _read_capability(device: Any) -> int:
    """Returns the compute capability of a GPU, such as 90; 0 for another device."""
    return int(str(getattr(device, "compute_capability", 0)).replace(".", ""))


def _find_source(equation: Any) -> SourceLine | None:
    lines, function = read_traceback(equation.source_info.traceback)
    return SourceLine(file=lines[0][0], line=lines[0][1], function=function) if lines else None


def _is_dropped(jaxpr: Any, equation: Any) -> bool:
    """Returns whether JAX drops a call when it lowers the program: nothing uses its results, and it writes no Ref."""

    if equation.effects or any(is_reference(variable.aval) for variable in equation.invars):
        return False
    read = {id(variable) for other in jaxpr.eqns for variable in other.invars} | set(map(id, jaxpr.outvars))
    return not any(id(variable) in read for variable in equation.outvars)


def _lower(equation: Any, platform: str) -> tuple[str, str]:
    return _lower_alone(equation.primitive, equation.params, [one.aval for one in equation.invars], platform)


def _find_bind(call: TracedCall, binds: Sequence[Bind]) -> Bind:
    return next(bind for bind in binds if bind.call.is_same(call))


def _lower_bind(bind: Any, platform: str, request: OpcheckRequest) -> FoundCall:
    """Returns the record of a call that JAX dropped while it traced the program."""
    module, trouble = _lower_alone(bind.primitive, bind.params, bind.avals, platform)
    call = bind.call
    source = SourceLine(file=call.lines[0][0], line=call.lines[0][1], function=call.function) if call.lines else None
    return FoundCall(
        kernel=call.kernel,
        source=call.site or source,
        module=module,
        trouble=trouble,
        is_dropped=True,
        not_run="JAX drops it before the program runs" if request.platform else "",
    )


def _lower_alone(primitive: Any, params: Mapping[str, Any], avals: Sequence[Any], platform: str) -> tuple[str, str]:
    """Returns a call by itself as HLO in base64, and an empty text; or an empty text, and the reason."""
    library: Any = jax
    try:
        jitted = library.jit(make_function(primitive, params, avals), keep_unused=True)
        lowered = jitted.trace(*map(make_shape, avals)).lower(lowering_platforms=(platform,))
        module = translate_to_hlo(str(lowered.compiler_ir("stablehlo")))
    except Exception as fault:
        traceback.print_exception(fault)
        return "", f"JAX cannot lower the call by itself: {describe_fault(fault)}"
    return base64.b64encode(module).decode(), ""


@dataclass(slots=True, eq=False)
class _Runs:
    """The runs of the calls, by the `id()` of the call's equation, and the reasons why other calls have no runs."""

    found: dict[int, CallRun] = field(default_factory=dict[int, CallRun])
    missed: dict[int, str] = field(default_factory=dict[int, str])
    failures: dict[int, RunFailure] = field(default_factory=dict[int, RunFailure])


def _run_calls(closed: Any, case: Case, device: Any, request: OpcheckRequest) -> _Runs:
    """Evaluates the program on the device and tries each kernel call on the operands that it gets."""
    library: Any = jax
    runs = _Runs()

    def visit(equation: Any, operands: Sequence[Any]) -> None:
        avals = [variable.aval for variable in equation.invars]
        results = [*(one.aval for one in equation.outvars), *(aval for aval in avals if is_reference(aval))]
        kernel = LoneKernel(
            function=make_function(equation.primitive, equation.params, avals),
            operands=tuple(map(make_shape, avals)),
            results=tuple(map(make_shape, results)),
        )
        try:
            contents = [  # of copies, because JAX remembers what it has read of an array
                np.array(library.numpy.copy(one[...] if is_reference(aval) else one), spec.dtype)
                for one, aval, spec in zip(operands, avals, kernel.operands, strict=True)
            ]
            tried = compile_kernel(kernel, contents, device)
        except Exception as fault:
            traceback.print_exception(fault)
            runs.missed[id(equation)] = f"it could not be compiled by itself for the device: {describe_fault(fault)}"
            return
        try:
            runs.found[id(equation)] = tried.observe(perturbs_integers=request.perturbs_integers)
        except Exception as fault:
            traceback.print_exception(fault)
            runs.missed[id(equation)] = f"a run of it by itself failed: {describe_fault(fault)}"
            runs.failures[id(equation)] = RunFailure.CALL

    def place(array: Any) -> Any:
        numbers = array if is_key(str(array.dtype)) else np.array(array)  # a copy, which a kernel may overwrite
        return library.device_put(numbers, device)

    with library.default_device(library.devices("cpu")[0]):
        drawn = library.tree.leaves(draw_arguments(case, 0))
    evaluation = EagerEvaluation(visit)
    fault_text, failure = "the program does not reach the call with these arguments", RunFailure.NONE
    try:
        evaluation.run(closed, [place(array) for array in drawn])
    except Exception as fault:
        traceback.print_exception(fault)
        fault_text = f"the program failed before it reached the call: {describe_fault(fault)}"
        failure = RunFailure.PROGRAM
    for _, equation in iterate_kernel_equations(closed.jaxpr):
        if id(equation) not in evaluation.visited:
            runs.missed[id(equation)] = evaluation.missed.get(id(equation), fault_text)
            is_known = id(equation) in evaluation.missed
            has_failed = id(equation) in evaluation.failed
            runs.failures[id(equation)] = RunFailure.PROGRAM if has_failed else RunFailure.NONE if is_known else failure
    return runs
