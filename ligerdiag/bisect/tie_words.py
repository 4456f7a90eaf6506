"""Ties and readers in words."""

from collections.abc import Sequence

from ligerdiag.bisect.minimal_sets import Knobs
from ligerdiag.compile.reader import Reader
from ligerdiag.inspection import WrittenOperand
from ligerdiag.report.source_text import compute_place
from ligerdiag.words import join_words


def describe_reader(reader: Reader) -> str:
    """Such as `dot_general` at train.py:41 reads f32[4,32]; its id where its place is not known."""
    return f"`{_name(reader)}` {_locate(reader)} reads {reader.shape}"


def describe_ties(ties: Knobs, knobs: Sequence[Reader]) -> str:
    """Such as tie 1 (`reduce` at train.py:43); ties 1 (`reduce` at train.py:43) and 3 (`dot_general` at train.py:41)."""
    names = [f"{number + 1} (`{_name(knobs[number])}` {_locate(knobs[number])})" for number in sorted(ties)]
    return f"{'tie' if len(names) == 1 else 'ties'} {join_words(names)}"


def describe_written(written: Sequence[WrittenOperand]) -> str:
    """Such as `what `ce_kernel` overwrites`."""
    kernels = list(dict.fromkeys(f"`{one.kernel}`" for one in written))
    return f"what {join_words(kernels)} {'overwrites' if len(kernels) == 1 else 'overwrite'}"


def _name(reader: Reader) -> str:
    return reader.opcode.removeprefix("stablehlo.")


def _locate(reader: Reader) -> str:
    return f"at {compute_place(reader.source)}" if reader.source.file else f"({reader.id})"
