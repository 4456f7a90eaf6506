"""Builds neighbourhoods by hand."""

from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.schedule_view import Fate, Neighbourhood, Origin, Reader, ReadTime, ScheduleFacts


def make_reader(primitive: str = "dot_general", **changes: object) -> Reader:
    fields: dict[str, object] = {
        "opcode": "dot",
        "op_name": f"jit(step)/{primitive}",
        "source": SourceLine(file="/home/me/train.py", line=41, function="step"),
        "side": ReadTime.AFTER,
        "origin": Origin.VALUE,
    }
    return Reader(**{**fields, **changes})  # type: ignore[arg-type]


def make_neighbourhood(*readers: Reader, **changes: object) -> Neighbourhood:
    fields: dict[str, object] = {
        "kernel": "ce_kernel",
        "operand": 0,
        "number": 1,
        "fate": Fate.PERFORMED,
        "source": SourceLine(file="/home/me/train.py", line=30, function="step"),
        "shape": "f32[8,32]",
        "size": 1024,
        "readers": readers,
    }
    return Neighbourhood(**{**fields, **changes})  # type: ignore[arg-type]


def make_facts(*neighbourhoods: Neighbourhood, **outputs: Verdict) -> ScheduleFacts:
    return ScheduleFacts(outputs=outputs, neighbourhoods=neighbourhoods)
