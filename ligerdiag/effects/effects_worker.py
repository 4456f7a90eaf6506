"""Implements a worker, the process `python -m ligerdiag.effects.effects_worker`, that reads kernels with the Triton of
its own environment, and makes the jobs that ask the worker.

A job and its answer are JSON: one call and its effects, or one module of Triton IR and its operations. Triton's IR
changes from version to version, and one version may refuse the IR of another, so the version that wrote the IR reads it.
"""

import importlib
import json
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ligerdiag.codec import (
    FieldError,
    Json,
    as_int,
    decode_record,
    encode_record,
    parse_record,
    read_int,
    read_list,
    read_object,
    read_str,
)
from ligerdiag.effects.access import CallEffects, Neighbours
from ligerdiag.effects.call import CustomCall, compute_call_effects
from ligerdiag.effects.ttir_module import TtirModule, parse_ttir
from ligerdiag.model.jobs import Job, Source, parse_answer, render_request
from ligerdiag.workers.loop import Answerer, serve

EFFECTS_WORKER = "ligerdiag.effects.effects_worker"
MODULE = "module"
"""Value of the field `job` in a job that asks for the operations of a module."""
_NO_SOURCE = Source(root="")


def render_effects(effects: CallEffects) -> str:
    """Returns the effects of a call as one JSON object."""
    return json.dumps(encode_record(effects))


def parse_effects(text: str | bytes, *, operands: int, outputs: int) -> CallEffects | None:
    """Returns the effects from the text that `render_effects` made of them. Returns None for any other text.

    operands, outputs: how many operands and outputs the call has. Returns None if the effects are on more or fewer of them.
    """
    try:
        effects = parse_record(CallEffects, text)
    except FieldError:
        return None
    fields = effects.operands, effects.operand_uses, effects.operand_stores, effects.operand_names
    fits = (
        all(len(field) == operands for field in fields)
        and len(effects.outputs) == len(effects.output_uses) == outputs
        and all(not name or name.isidentifier() for name in effects.operand_names)
        and all(0 <= number < operands for number in effects.result_sources or ())
        and all(place.line >= 0 for places in effects.operand_stores for place in places)
        and all(
            0 <= number < operands + outputs and pair.neighbours is not Neighbours.UNKNOWN
            for pair in effects.in_place
            for number in (pair.reader, pair.writer)
        )
    )
    return effects if fits else None


def make_effects_job(call: CustomCall) -> Job[CallEffects]:
    """Returns the job, for `Pool.submit` or `Pool.run_all`, whose answer is the effects of a call."""
    request = {**asdict(call), "backend_config": b64encode(call.backend_config).decode("ascii")}
    return Job(
        source=_NO_SOURCE,
        name=f"a kernel of `{call.target}`",
        render=lambda log: render_request("effects", request, log),
        parse=lambda line: _parse_answer(line, call),
    )


def make_module_job(source: bytes) -> Job[TtirModule]:
    """Returns the job, for `Pool.submit` or `Pool.run_all`, whose answer is the operations of a module.

    source: the module's MLIR text or bytecode.
    """
    request = {"source": b64encode(source).decode("ascii")}
    return Job(
        source=_NO_SOURCE,
        name="a kernel's module",
        render=lambda log: render_request(MODULE, request, log),
        parse=lambda line: decode_record(TtirModule, parse_answer(line)),
    )


def parse_module_request(job: Json) -> bytes:
    """Returns the module, as MLIR text or bytecode, in a worker's job; raises FieldError if there is none."""
    return _read_bytes(read_object(job, "request"), "source")


def parse_effects_request(job: Json) -> CustomCall:
    """Returns the custom call in a worker's job; raises FieldError if there is none."""
    request = read_object(job, "request")
    return CustomCall(
        target=read_str(request, "target"),
        backend_config=_read_bytes(request, "backend_config"),
        operands=read_int(request, "operands"),
        outputs=read_int(request, "outputs"),
        sizes=tuple(None if size is None else as_int(size, "sizes") for size in read_list(request, "sizes")),
    )


def _parse_answer(line: str, call: CustomCall) -> CallEffects:
    text = read_str(parse_answer(line), "effects")
    effects = parse_effects(text, operands=call.operands, outputs=call.outputs)
    if effects is None:
        raise FieldError("expected one effect for each operand and output of the call but got more or fewer")
    return effects


def _read_bytes(fields: Json, name: str) -> bytes:
    try:
        return b64decode(read_str(fields, name), validate=True)
    except ValueError as error:
        raise FieldError(f"expected base64 for `{name}`: {error}") from error


def prepare() -> Answerer:
    """Imports Triton, if it is installed, and returns the function that answers the worker's jobs. The function takes a job
    (parsed JSON) and the path of a log, which it ignores. It returns the answer as one line of JSON.
    """
    with suppress(ModuleNotFoundError):  # a Mosaic GPU kernel is read by JAX alone
        importlib.import_module("triton")

    def answer(job: Json, log: Path) -> str:
        del log
        if job.get("job") == MODULE:
            return json.dumps({"answer": encode_record(parse_ttir(parse_module_request(job)))}) + "\n"
        call = parse_effects_request(job)
        effects = compute_call_effects(
            target=call.target,
            backend_config=call.backend_config,
            operands=call.operands,
            outputs=call.outputs,
            sizes=call.sizes,
        )
        return json.dumps({"answer": {"effects": render_effects(effects)}}) + "\n"

    return answer


if __name__ == "__main__":
    serve(prepare, starts_nothing=True)
