"""Runs the launches of `truth_cases` through Triton's interpreter and records every byte that each program accesses.

Started as a separate process with TRITON_INTERPRET=1; prints one JSON object.
"""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tests.effects.truth_case import TruthCase
from tests.effects.truth_cases import CASES
from tests.effects.truth_sweep import SWEEP
from tests.oracle.grid import run_programs
from tests.oracle.launch import KernelLaunch, Scalar
from tests.oracle.narrow_floats import override

DTYPES: dict[str, Any] = {
    "fp32": np.float32, "fp16": np.float16, "i32": np.int32, "i64": np.int64, "i8": np.int8, "u8": np.uint8,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
GUARD = 256
"""Bytes of canary on either side of each buffer."""
CANARY = 0xA5


@dataclass
class Buffer:
    """An operand between its canaries, and its recorded accesses: arrays of bytes, or of program numbers by byte."""

    whole: np.ndarray
    view: np.ndarray
    before: np.ndarray
    mine: np.ndarray
    writer: np.ndarray
    toucher: np.ndarray
    reads: bool = False
    reads_old: bool = False
    shared: bool = False
    program: int = -1
    several: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    wrote: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])
    """Program to the bytes it wrote."""
    read: dict[tuple[int, str], np.ndarray] = field(default_factory=dict[tuple[int, str], np.ndarray])
    """Program and another buffer to the bytes it read non-atomically without having written them before, if both
    buffers were the same memory. Under the name "", all bytes it read.
    """


NOBODY = -1


class Watcher:
    """Wraps the interpreter's memory operations."""

    def __init__(self, original: Any, builder: Any, buffers: dict[str, Buffer], grid: tuple[int, int, int]) -> None:
        self._original, self._builder, self._buffers, self._grid = original, builder, buffers, grid
        self.stray: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._note(pointers, mask, np.dtype(dtype).itemsize, reads=True, writes=False)
        return self._original.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        self._note(pointers, mask, value.dtype.itemsize, reads=False, writes=True)
        return self._original.store(pointers, value, mask)

    def atomic_rmw(self, operation: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        self._note(pointers, mask, value.dtype.itemsize, reads=True, writes=True)
        return self._original.atomic_rmw(operation, pointers, value, mask, order)

    def atomic_cas(self, pointers: Any, compared: Any, value: Any, order: Any) -> Any:
        width = compared.dtype.itemsize
        self._note(pointers, True, width, reads=True, writes=False)
        old = self._original.atomic_cas(pointers, compared, value, order)
        self._note(pointers, old == compared, width, reads=False, writes=True)
        return old

    def _note(self, pointers: Any, mask: Any, width: int, *, reads: bool, writes: bool) -> None:
        pointers, mask = np.broadcast_arrays(pointers, mask)
        starts = pointers[mask.astype(bool)].reshape(-1).astype(np.int64)
        x, y, z = self._builder.grid_idx
        program = int((z * self._grid[1] + y) * self._grid[0] + x)
        for buffer in self._buffers.values():
            low = buffer.view.ctypes.data
            inside = (starts >= low) & (starts + width <= low + buffer.view.nbytes)
            places = ((starts[inside] - low)[:, None] + np.arange(width)).reshape(-1)
            starts = starts[~inside]
            if places.size:
                _note_places(buffer, program, places, reads, writes)
                self._note_pairs(buffer, program, places, reads, writes)
        if starts.size:
            self.stray.append(f"program {program}: {starts.size} elements outside of every buffer")

    def _note_pairs(self, buffer: Buffer, program: int, places: np.ndarray, reads: bool, writes: bool) -> None:
        if reads:
            _mark(buffer.read, (program, ""), places, buffer)
        for name, other in self._buffers.items() if reads and not writes else ():
            if other.view.nbytes == buffer.view.nbytes:
                own = [one.wrote[program] for one in (buffer, other) if program in one.wrote]
                _mark(buffer.read, (program, name), places[~np.any([mask[places] for mask in own], 0)], buffer)
        if writes:
            _mark(buffer.wrote, program, places, buffer)


def _mark[K](masks: dict[K, np.ndarray], key: K, places: np.ndarray, buffer: Buffer) -> None:
    masks.setdefault(key, np.zeros(buffer.view.nbytes, bool))[places] = True


def find_meetings(buffers: dict[str, Buffer]) -> dict[str, str]:
    """Returns a letter for each reader and writer of equal size: s if a program read non-atomically a byte that another
    one wrote, d if no program read such a byte at all, - in between.
    """
    found: dict[str, str] = {}
    for reader, one in buffers.items():
        for writer, other in buffers.items():
            if one.view.nbytes == other.view.nbytes:
                met = {
                    name
                    for (program, name), mask in one.read.items()
                    for owner, wrote in other.wrote.items()
                    if owner != program and (mask & wrote).any()
                }
                found[f"{reader} {writer}"] = "s" if writer in met else "-" if "" in met else "d"
    return found


def _note_places(buffer: Buffer, program: int, places: np.ndarray, reads: bool, writes: bool) -> None:
    if program != buffer.program:
        buffer.program = program
        buffer.mine[:] = False
    touchers, writers = buffer.toucher[places], buffer.writer[places]
    others_wrote = (writers != NOBODY) & (writers != program)
    others_touched = buffer.several[places] | ((touchers != NOBODY) & (touchers != program))
    if reads:
        buffer.reads = True
        buffer.reads_old |= bool((~buffer.mine[places]).any())
    buffer.shared |= bool((others_touched if writes else others_wrote).any())
    if writes:
        buffer.mine[places] = True
        buffer.writer[places] = program
    buffer.several[places] |= (touchers != NOBODY) & (touchers != program)
    buffer.toucher[places] = program


def make_buffers(case: TruthCase, seed: int) -> dict[str, Buffer]:
    chance = np.random.default_rng(seed)
    buffers: dict[str, Buffer] = {}
    for name, (kind, elements) in case.buffers.items():
        dtype = np.dtype(DTYPES[kind])
        size = dtype.itemsize * elements
        whole = np.full(size + 2 * GUARD, CANARY, np.uint8)
        view = whole[GUARD : GUARD + size].view(dtype)
        views = {known: buffer.view for known, buffer in buffers.items()}
        if name in case.fill:
            view[...] = np.asarray(case.fill[name](chance, views))[:elements].astype(dtype)
        elif dtype.kind == "f":
            view[...] = chance.standard_normal(elements).astype(dtype)
        else:
            view[...] = chance.integers(0, 4, elements).astype(dtype)
        buffers[name] = Buffer(
            whole=whole,
            view=view,
            before=whole.copy(),
            mine=np.zeros(size, bool),
            writer=np.full(size, NOBODY),
            toucher=np.full(size, NOBODY),
            several=np.zeros(size, bool),
        )
    return buffers


def run(case: TruthCase, seed: int) -> dict[str, Any]:
    from triton.runtime import interpreter

    names = [name for name in case.kernel.arg_names if name not in case.constants]
    buffers = make_buffers(case, seed)
    scalars = tuple(
        Scalar(position=position, type="i32" if isinstance(value, int) else "fp32", value=value)
        for position, name in enumerate(names)
        if name not in case.buffers
        for value in (case.scalars[name],)
    )
    operands = [buffers[name].view for name in names if name in case.buffers]
    pointers = tuple(position for position, name in enumerate(names) if name in case.buffers)
    launch = KernelLaunch(
        payload="", kernel=case.kernel.fn.__name__, module="", file="", qualname="", source="", grid=case.grid,
        operands=len(operands), outputs=0, scalars=scalars,
        pointers=pointers, constants=case.constants, zeroed=(), aliases={},
    )  # fmt: skip
    watcher = Watcher(interpreter._interpreter, interpreter.interpreter_builder, buffers, case.grid)
    with override(interpreter, _interpreter=watcher):
        run_programs(launch, case.kernel, operands)
    truth: dict[str, Any] = {"stray": watcher.stray, "in place": find_meetings(buffers)}
    for name, buffer in buffers.items():
        written = buffer.writer != NOBODY
        changed = buffer.whole != buffer.before
        if changed[:GUARD].any() or changed[GUARD + written.size :].any():
            truth["stray"].append(f"the canaries around `{name}` changed")
        if (changed[GUARD : GUARD + written.size] & ~written).any():
            truth["stray"].append(f"`{name}` changed where no store was seen")
        coverage = "c" if written.all() else "p" if written.any() else "-"
        truth[name] = {
            "letters": ("y" if buffer.reads_old else "n") + coverage + ("s" if buffer.shared else "d"),
            "reads": buffer.reads,
            "changed": bool(changed.any()),
        }
    return truth


if __name__ == "__main__":
    seen = {name: [run(case, seed) for seed in (1, 2)] for name, case in CASES.items() if case.interpreted}
    json.dump(seen | {name: [run(case, 1)] for name, case in SWEEP.items()}, sys.stdout)
