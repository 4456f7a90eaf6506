"""Describes pairs of values that XLA keeps in the same bytes although both are still needed: their names, places and
readers.
"""

from collections.abc import Sequence

from ligerdiag.hlo.buffers import Slice
from ligerdiag.hlo.dataflow import Position
from ligerdiag.hlo.shape import render_index
from ligerdiag.hlo.shared_bytes import SharedBytes
from ligerdiag.text import describe_names


def name_position(position: Position) -> str:
    """Returns the name of a value, such as `%fusion.3{0}`; without an index if the value is the instruction's whole
    result.
    """
    instruction, index = position
    return f"%{instruction.name}{render_index(index) if index else ''}"


def name_reader(pair: SharedBytes) -> str:
    """Returns a phrase that says who needs the lost value of the pair, such as `%fusion.7 reads`, `the caller keeps` or `the
    program returns`.
    """
    if pair.reader is not None:
        return f"%{pair.reader.name} reads"
    return "the caller keeps" if pair.is_kept else "the program returns"


def describe_pair(pair: SharedBytes) -> str:
    """Returns a clause that says which value of the pair XLA overwrites with the other one."""
    lost, other = name_position(pair.lost), name_position(pair.other)
    if pair.lost[0] is pair.other[0]:
        first, second = sorted((lost, other))
        return f"XLA put two results of one instruction, `{first}` and `{second}`, into the same bytes"
    if pair.reader is None:
        need = name_reader(pair)
    elif pair.reader is pair.other[0] and pair.lost_place == pair.other_place:
        need = "the same instruction still needs for other elements"
    elif pair.reader is pair.other[0]:
        need = f"`{other}` reads at other offsets"
    else:
        need = f"`%{pair.reader.name}` reads afterwards"
    return f"XLA writes `{other}` over `{lost}`, which {need}"


def describe_place(place: Slice) -> str:
    """Returns the text for a slice of memory, such as `bytes 512 to 1535 of allocation 13 (1024 bytes)`."""
    last = place.offset + place.size - 1
    return f"bytes {place.offset} to {last} of allocation {place.allocation} ({place.size} bytes)"


def describe_must_share(pair: SharedBytes, outputs: Sequence[str]) -> str:
    """Returns a line about the pair for the section "not covered" of a report. The module has no buffer assignment. The
    line says that it is unknown whether XLA copied the lost value first. outputs: names of all outputs of the program.
    """
    names = [name for number, name in enumerate(outputs) if number in pair.outputs]
    reached = f": {describe_names(names, outputs)}" if names else ""
    lost, other = name_position(pair.lost), name_position(pair.other)
    return (
        f"XLA's rules put {other} into the bytes of {lost}, which {name_reader(pair)} afterwards: without a buffer"
        f" assignment it is unknown whether XLA made a copy{reached}"
    )
