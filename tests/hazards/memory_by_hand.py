"""Memory records made by hand."""

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.memory import Copy, CopyCause, LiveValue, MemoryUse

MIB = 1 << 20


def make_line(number: int, file: str = "/home/me/train.py") -> SourceLine:
    return SourceLine(file=file, line=number, function="step")


def make_copy(size: int = 64 * MIB, **changes: object) -> Copy:
    fields: dict[str, object] = {
        "instruction": "copy.1",
        "bytes": size,
        "operand": "add.3",
        "source": "temporary memory",
        "target": "argument `cache`",
        "cause": CopyCause.UNDONATED,
        "line": make_line(41),
    }
    return Copy(**{**fields, **changes})  # type: ignore[arg-type]


def make_memory(*copies: Copy, **changes: object) -> MemoryUse:
    fields: dict[str, object] = {
        "arguments": 100 * MIB,
        "outputs": 80 * MIB,
        "aliased": 60 * MIB,
        "temporaries": 30 * MIB,
        "peak": 140 * MIB,
        "peak_at": "fusion.7",
        "peak_line": make_line(12),
        "at_peak": (
            LiveValue(
                instruction="p0", bytes=60 * MIB, about="argument `cache`", shape="f32[4096,3840]", line=make_line(9)
            ),
            LiveValue(instruction="fusion.7", bytes=20 * MIB, about="temporary", line=make_line(12)),
        ),
        "copies": copies,
    }
    return MemoryUse(**{**fields, **changes})  # type: ignore[arg-type]
