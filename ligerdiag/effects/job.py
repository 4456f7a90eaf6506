"""Records that cross the boundary to a worker that reads kernels with another Triton than ours, as JSON.

The messages to a worker that reads kernels with another Triton than ours: one call, and its effects.

Triton's IR changes from version to version: the next version may refuse it. So the version that wrote it reads it.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import asdict, replace
from typing import cast

from ligerdiag.codec import FieldError, Json, as_int, read_int, read_list, read_object, read_str
from ligerdiag.effects.access import (
    Access,
    CallEffects,
    InPlace,
    Neighbours,
    OperandUse,
    ReadsBeforeWrite,
    WriteCoverage,
)
from ligerdiag.effects.call import CustomCall
from ligerdiag.model.findings import AccessKind, OutsideAccess, SourceLine
from ligerdiag.model.jobs import Job, Source, parse_answer, render_request

_TOLD = (Neighbours.SHARED.value, Neighbours.DISJOINT.value)


def render_effects(effects: CallEffects) -> str:
    """Returns one JSON object."""
    return json.dumps(
        {
            "kernel": effects.kernel,
            "operands": [access.value for access in effects.operands],
            "outputs": [access.value for access in effects.outputs],
            "reasons": list(effects.reasons),
            "configurations": effects.configurations,
            "grid": list(effects.grid),
            "operand_uses": [_render_use(use) for use in effects.operand_uses],
            "output_uses": [_render_use(use) for use in effects.output_uses],
            "outside": [
                [number, *_render_outside(one)]
                for number, use in enumerate((*effects.operand_uses, *effects.output_uses))
                for one in use.outside
            ],
            "in_place": [[pair.reader, pair.writer, pair.neighbours.value] for pair in effects.in_place],
            "operand_stores": [[[place.file, place.line] for place in stores] for stores in effects.operand_stores],
        }
    )


def _render_use(use: OperandUse) -> list[str]:
    return [use.reads_before_write.value, use.coverage.value, use.neighbours.value, use.reason]


def _render_outside(access: OutsideAccess) -> list[object]:
    place = None if access.line is None else [access.line.file, access.line.line]
    return [
        access.kind.value,
        access.size,
        access.first_byte,
        access.width,
        access.elements,
        access.program,
        place,
    ]


def parse_effects(text: bytes, *, operands: int, outputs: int) -> CallEffects | None:
    """Parses the output of `render_effects` for a call with that many operands and outputs; None for anything else."""
    try:
        raw = cast(object, json.loads(text))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    fields = cast(dict[str, object], raw)
    kernel, configurations = fields.get("kernel"), fields.get("configurations")
    reasons = _parse_strings(fields.get("reasons"))
    operand_accesses = _parse_accesses(fields.get("operands"), operands)
    output_accesses = _parse_accesses(fields.get("outputs"), outputs)
    operand_uses = _parse_uses(fields.get("operand_uses"), operands)
    output_uses = _parse_uses(fields.get("output_uses"), outputs)
    in_place = _parse_in_place(fields.get("in_place"), operands + outputs)
    operand_stores = _parse_stores(fields.get("operand_stores"), operands)
    outside = _parse_outside(fields.get("outside"), operands + outputs)
    grid = fields.get("grid")
    sizes = [size for size in cast(list[object], grid) if type(size) is int] if isinstance(grid, list) else []
    if (
        not isinstance(kernel, str)
        or type(configurations) is not int
        or reasons is None
        or operand_accesses is None
        or output_accesses is None
        or operand_uses is None
        or output_uses is None
        or in_place is None
        or operand_stores is None
        or outside is None
        or len(sizes) != 3
    ):
        return None
    return CallEffects(
        kernel=kernel,
        operands=operand_accesses,
        outputs=output_accesses,
        reasons=reasons,
        configurations=configurations,
        grid=(sizes[0], sizes[1], sizes[2]),
        operand_uses=tuple(replace(use, outside=found) for use, found in zip(operand_uses, outside, strict=False)),
        output_uses=tuple(
            replace(use, outside=found) for use, found in zip(output_uses, outside[operands:], strict=True)
        ),
        in_place=in_place,
        operand_stores=operand_stores,
    )


def _parse_strings(raw: object) -> tuple[str, ...] | None:
    if not isinstance(raw, list):
        return None
    items = cast(list[object], raw)
    strings = tuple(item for item in items if isinstance(item, str))
    return strings if len(strings) == len(items) else None


def _parse_accesses(raw: object, count: int) -> tuple[Access, ...] | None:
    strings = _parse_strings(raw)
    if strings is None or len(strings) != count:
        return None
    try:
        return tuple(Access(string) for string in strings)
    except ValueError:
        return None


def _parse_uses(raw: object, count: int) -> tuple[OperandUse, ...] | None:
    if not isinstance(raw, list):
        return None
    uses: list[OperandUse] = []
    for item in cast(list[object], raw):
        strings = _parse_strings(item)
        if strings is None or len(strings) != 4:
            return None
        try:
            use = OperandUse(
                reads_before_write=ReadsBeforeWrite(strings[0]),
                coverage=WriteCoverage(strings[1]),
                neighbours=Neighbours(strings[2]),
                reason=strings[3],
            )
        except ValueError:
            return None
        uses.append(use)
    return tuple(uses) if len(uses) == count else None


def _parse_outside(raw: object, count: int) -> tuple[tuple[OutsideAccess, ...], ...] | None:
    """One tuple per buffer."""
    found: list[list[OutsideAccess]] = [[] for _ in range(count)]
    if not isinstance(raw, list):
        return None
    for item in cast(list[object], raw):
        fields = cast(list[object], item) if isinstance(item, list) else []
        if len(fields) != 8:
            return None
        kind, place = fields[1], fields[7]
        line = _parse_place(place)
        counts = [one for one in (fields[0], *fields[2:7]) if type(one) is int]
        if len(counts) != 6 or not 0 <= counts[0] < count or counts[3] <= 0 or (line is None and place is not None):
            return None
        if not isinstance(kind, str) or kind not in set(AccessKind):
            return None
        found[counts[0]].append(
            OutsideAccess(
                kind=AccessKind(kind),
                buffer=None,
                size=counts[1],
                first_byte=counts[2],
                width=counts[3],
                elements=counts[4],
                program=counts[5],
                line=line,
            )
        )
    return tuple(map(tuple, found))


def _parse_place(raw: object) -> SourceLine | None:
    match raw:
        case [str() as file, int() as line] if type(line) is int and line >= 0:
            return SourceLine(file=file, line=line)
        case _:
            return None


def _parse_in_place(raw: object, count: int) -> tuple[InPlace, ...] | None:
    if not isinstance(raw, list):
        return None
    pairs: list[InPlace] = []
    for item in cast(list[object], raw):
        parts = cast(list[object], item) if isinstance(item, list) else []
        numbers = [part for part in parts[:2] if type(part) is int and 0 <= part < count]
        if len(parts) != 3 or len(numbers) != 2 or parts[2] not in _TOLD:
            return None
        pairs.append(InPlace(reader=numbers[0], writer=numbers[1], neighbours=Neighbours(parts[2])))
    return tuple(pairs)


def _parse_stores(raw: object, count: int) -> tuple[tuple[SourceLine, ...], ...] | None:
    if not isinstance(raw, list):
        return None
    found: list[tuple[SourceLine, ...]] = []
    for stores in cast(list[object], raw):
        places: list[SourceLine] = []
        for item in cast(list[object], stores) if isinstance(stores, list) else [None]:
            match item:
                case [str() as file, int() as line] if type(line) is int and line >= 0:
                    places.append(SourceLine(file=file, line=line))
                case _:
                    return None
        found.append(tuple(places))
    return tuple(found) if len(found) == count else None


EFFECTS_WORKER = "ligerdiag.effects.worker"
_NO_SOURCE = Source(root="")


def make_effects_job(call: CustomCall) -> Job[CallEffects]:
    """Returns the job that asks a worker what the call does to its buffers."""
    request = {**asdict(call), "backend_config": b64encode(call.backend_config).decode("ascii")}
    return Job(
        source=_NO_SOURCE,
        name=f"a kernel of `{call.target}`",
        render=lambda log: render_request("effects", request, log),
        parse=lambda line: _parse_effects(line, call),
    )


def parse_effects_request(job: Json) -> CustomCall:
    """Returns the call that a worker is asked about; raises FieldError when it is none."""
    request = read_object(job, "request")
    try:
        config = b64decode(read_str(request, "backend_config"), validate=True)
    except ValueError as error:
        raise FieldError(f"expected base64 for `backend_config`: {error}") from error
    return CustomCall(
        target=read_str(request, "target"),
        backend_config=config,
        operands=read_int(request, "operands"),
        outputs=read_int(request, "outputs"),
        sizes=tuple(None if size is None else as_int(size, "sizes") for size in read_list(request, "sizes")),
    )


def _parse_effects(line: str, call: CustomCall) -> CallEffects:
    text = read_str(parse_answer(line), "effects")
    effects = parse_effects(text.encode(), operands=call.operands, outputs=call.outputs)
    if effects is None:
        raise FieldError("expected effects that fit the call")
    return effects
