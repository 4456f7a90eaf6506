"""Hand-made views: a kernel in a loop, read in every possible way."""

from collections.abc import Mapping, Sequence

from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.schedule_view import (
    AccessKind,
    BufferAccess,
    Lane,
    MissingEdge,
    MutatedBuffer,
    OutputView,
    Place,
    ReadKind,
    ScheduleStep,
    ScheduleView,
)
from tests.report.samples import OUTPUTS

PLACE = SourceLine(file="train.py", line=41, function="step")

KINDS: Mapping[int, tuple[AccessKind, ReadKind, Place, tuple[str, ...]]] = {
    3: (AccessKind.DEFINE, ReadKind.NONE, Place.SAME_BYTES, ()),
    4: (AccessKind.READ, ReadKind.ORIGINAL, Place.SAME_BYTES, ("loss",)),
    6: (AccessKind.READ, ReadKind.STALE, Place.SAME_BYTES, ("input",)),
    7: (AccessKind.HIDDEN_WRITE, ReadKind.NONE, Place.SAME_BYTES, ()),
    8: (AccessKind.READ, ReadKind.LATENT, Place.SAME_BYTES, ("weight",)),
    9: (AccessKind.READ, ReadKind.STALE, Place.COPY, ("input",)),
    10: (AccessKind.READ, ReadKind.FRESH, Place.SAME_BYTES, ("loss",)),
    11: (AccessKind.READ, ReadKind.CLOBBERED, Place.SAME_BYTES, ("bias",)),
    12: (AccessKind.READ, ReadKind.UNKNOWN, Place.RECOMPUTED, ("loss", "bias")),
    14: (AccessKind.REUSE, ReadKind.NONE, Place.SAME_BYTES, ()),
}
"""Id of a step to its access."""

_NAMES = {
    1: ("%while.3", "while"),
    2: ("%gemm_fusion_dot.5", "fusion"),
    3: ("%loop_add_fusion.1", "fusion"),
    4: ("%all-gather-start", "all-gather-start"),
    5: ("%all-gather-done", "all-gather-done"),
    6: ("%input_multiply_reduce_subtract_fusion", "fusion"),
    7: ("%triton_kernel_call_ld53.1", "custom-call"),
    8: ("%gemm_fusion_dot.7", "fusion"),
    9: ("%loop_pad_fusion.1", "fusion"),
    10: ("%input_reduce_fusion", "fusion"),
    11: ("%copy_fusion", "fusion"),
    12: ("%loop_exponential_fusion", "fusion"),
    13: ("%dynamic-update-slice.4", "dynamic-update-slice"),
    14: ("%wrapped_transpose", "fusion"),
    15: ("%tuple.9", "tuple"),
}


def make_step(number: int, **changes: object) -> ScheduleStep:
    name, opcode = _NAMES.get(number, (f"%fusion.{number}", "fusion"))
    loops = (1,) if number not in (1, 2, 15) else ()
    operands = (number - 1,) if number > 2 else ()
    fields: dict[str, object] = {
        "id": number,
        "name": name,
        "opcode": opcode,
        "shape": "f32[2,32]",
        "text": f"{name} = f32[2,32]{{1,0}} {opcode}({_NAMES.get(number - 1, ('%p', ''))[0]})",
        "fused": ("%a = f32[2,32]{1,0} parameter(0)", "ROOT %b = f32[2,32]{1,0} negate(%a)")
        if opcode == "fusion"
        else (),
        "start": 40 + number,
        "end": 45 if number == 4 else 40 + number,
        "lane": Lane.COLLECTIVE if number == 4 else Lane.COMPUTE,
        "loops": loops,
        "op_name": "jit(step)/while/body/mul",
        "source": PLACE,
        "operands": operands,
        "is_kernel": number == 7,
    }
    return ScheduleStep(**{**fields, **changes})  # type: ignore[arg-type]


def make_buffer(**changes: object) -> MutatedBuffer:
    fields: dict[str, object] = {
        "kernel": "ce_kernel",
        "operand": 0,
        "value": "%loop_add_fusion.1",
        "shape": "f32[2,32]",
        "size": 256,
        "allocation": 4,
        "offset": 0,
        "is_performed": True,
        "unknown": False,
    }
    return MutatedBuffer(**{**fields, **changes})  # type: ignore[arg-type]


def make_accesses(numbers: Sequence[int] = tuple(KINDS), buffer: int = 0) -> tuple[BufferAccess, ...]:
    return tuple(
        BufferAccess(buffer=buffer, step=number, kind=kind, read=read, place=place, outputs=outputs)
        for number, (kind, read, place, outputs) in KINDS.items()
        if number in numbers
    )


def make_output(name: str, verdict: Verdict) -> OutputView:
    reader = {"loss": 10, "input": 9, "weight": 8, "bias": 11}[name]
    return OutputView(
        name=name,
        verdict=verdict,
        path=((7, reader) if verdict is not Verdict.STALE else (reader,)) + (13, 15),
        missing=(MissingEdge(buffer=0, kernel=7, reader=reader),) if verdict is Verdict.STALE else (),
        sentence=f"`{name}` is computed from what %loop_add_fusion.1 held before `ce_kernel` overwrote it"
        if verdict is Verdict.STALE
        else f"`{name}` is computed from what `ce_kernel` wrote",
    )


def make_view(**changes: object) -> ScheduleView:
    steps = tuple(make_step(number) for number in _NAMES)
    fields: dict[str, object] = {
        "module": "jit_step",
        "instructions": 120,
        "length": 70,
        "buffers": (make_buffer(),),
        "accesses": make_accesses(),
        "steps": steps,
        "outputs": tuple(make_output(name, verdict) for name, verdict in OUTPUTS.items()),
        "omitted": 55,
        "text": ("HloModule jit_step", "", *(step.text for step in steps)),
        "anchors": tuple((step.id, number + 2) for number, step in enumerate(steps)),
        "notes": ("iterations after the first are not drawn",),
    }
    return ScheduleView(**{**fields, **changes})  # type: ignore[arg-type]
