"""Runs the kernels of an artifact on bytes, from their own Python source, and says what was seen of each.

The process must have had TRITON_INTERPRET=1 in its environment before triton was imported.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from ligerdiag.compile.kernel_launch import KernelLaunch
from ligerdiag.outcomes import LaunchNumbers
from ligerdiag.replay.grid import AtomicsError, Ran, count_programs, run_programs
from ligerdiag.replay.grid_pool import GridPool
from ligerdiag.replay.kernel_source import find_kernel
from ligerdiag.replay.launch_watch import (
    Watch,
    find_races,
    make_watch,
    needs_confirmation,
    settle_truth_values,
)
from ligerdiag.replay.opcodes.scope import Array, NotCoveredError
from ligerdiag.replay.sharing import copy_buffers

SECONDS_PER_BYTE = 7e-8
"""Of all buffers: the interpreter goes over each element a few times."""
SECONDS_PER_PROGRAM = 1.5e-3
SPLIT_SECONDS = 3.0
"""From this estimate on, starting processes costs less than it saves."""


def estimate_seconds(launch: KernelLaunch, buffer_bytes: int) -> float:
    """Returns a rough estimate of one core's seconds for the launch; buffer_bytes: of operands and outputs together."""
    return SECONDS_PER_BYTE * buffer_bytes + SECONDS_PER_PROGRAM * count_programs(launch)


@dataclass(slots=True, kw_only=True, eq=False)
class _Seen:
    """Observations of the launches of one call so far."""

    kernel: str
    launches: int = 0
    checked: int = 0
    unwritten: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    racing: dict[int, float] = field(default_factory=dict[int, float])


class KernelRunner:
    """Runs kernels by the payloads of their custom calls.

    processes: how many may share the programs of a launch that is estimated to take split_seconds or more.
    check_seconds, checks: races are looked for where one run is estimated to take at most so long, in so many launches of
    each call. round_to_nearest: f32 to bf16 as a GPU does it, see `narrow_floats`.
    """

    def __init__(
        self,
        launches: Sequence[KernelLaunch],
        *,
        processes: int = 1,
        check_seconds: float = 0.5,
        checks: int = 2,
        split_seconds: float = SPLIT_SECONDS,
        round_to_nearest: bool = False,
    ) -> None:
        self._launches: Mapping[str, KernelLaunch] = {launch.payload: launch for launch in launches}
        self._kernels: dict[str, Any] = {}
        self._seen: dict[str, _Seen] = {}
        self._unsplit: set[str] = set()
        self._check_seconds, self._checks = check_seconds, checks
        self._round_to_nearest, self._split_seconds = round_to_nearest, split_seconds
        self._pool = GridPool(processes) if processes > 1 and hasattr(os, "memfd_create") else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def launch(
        self, payload: str, operands: Sequence[Array], outputs: Sequence[Array], *, instruction: str = ""
    ) -> None:
        """Runs the kernel on these bytes: flat contiguous arrays in the order of the call's buffers.

        Operands and outputs may share memory; what the kernel writes, it writes there, also to operands. `instruction`
        names the call in `numbers`; nothing is watched where it is empty. Raises NotCoveredError.
        """
        launch = self._find_launch(payload)
        buffers = (*operands, *outputs)
        watch = make_watch(launch, operands, outputs if instruction else ())
        if not instruction:
            watch.prepare(buffers)
            self._run(launch, buffers, None)
            return
        seen = self._seen.setdefault(instruction, _Seen(kernel=launch.kernel))
        seen.launches += 1
        size = sum(buffer.nbytes for buffer in buffers)
        check = seen.checked < self._checks and estimate_seconds(launch, size) <= self._check_seconds
        before = copy_buffers(buffers) if check else ()
        watch.prepare(buffers)
        ran = self._run(launch, buffers, None)
        self._note_unwritten(watch, seen, buffers, before)
        if check:
            seen.checked += 1
            races = find_races(
                watch, before, buffers, ran, lambda copies, programs: self._run(launch, copies, programs)
            )
            for operand, difference in races.items():
                seen.racing[operand] = max(seen.racing.get(operand, 0.0), difference)
        settle_truth_values([outputs[number] for number in watch.fresh])

    def numbers(self) -> tuple[LaunchNumbers, ...]:
        """Returns the observations by instruction, in the order of the first launch of each."""
        return tuple(
            LaunchNumbers(
                kernel=seen.kernel,
                instruction=instruction,
                launches=seen.launches,
                checked=seen.checked,
                unwritten=dict(seen.unwritten),
                racing=dict(seen.racing),
            )
            for instruction, seen in self._seen.items()
        )

    def close(self) -> None:
        """Ends the processes, if any were started."""
        if self._pool is not None:
            self._pool.close()

    def _find_launch(self, payload: str) -> KernelLaunch:
        launch = self._launches.get(payload)
        if launch is None:
            raise NotCoveredError("a kernel call whose launch the artifact does not hold")
        if payload not in self._kernels:
            self._kernels[payload] = find_kernel(launch)
        return launch

    def _run(self, launch: KernelLaunch, buffers: Sequence[Array], programs: Sequence[int] | None) -> Ran:
        size = sum(buffer.nbytes for buffer in buffers)
        split = self._pool is not None and programs is None and launch.payload not in self._unsplit
        if self._pool is not None and split and estimate_seconds(launch, size) >= self._split_seconds:
            try:
                self._pool.run(launch, buffers, round_to_nearest=self._round_to_nearest)
                return Ran(atomics=False)
            except AtomicsError:
                self._unsplit.add(launch.payload)
        kernel = self._kernels[launch.payload]
        return run_programs(launch, kernel, buffers, programs, round_to_nearest=self._round_to_nearest)

    def _note_unwritten(self, watch: Watch, seen: _Seen, buffers: Sequence[Array], before: Sequence[Array]) -> None:
        """Keeps the worst launch of each output."""
        found = dict(watch.find_unwritten(buffers))
        if found and before:
            again = copy_buffers(before)
            watch.prepare(again, other=True)
            self._run(watch.launch, again, None)
            confirmed = watch.find_unwritten(again, other=True)
            found = {output: mask & confirmed[output] for output, mask in found.items() if output in confirmed}
        for output, mask in found.items():
            buffer = buffers[watch.operands + output]
            count = int(mask.sum())
            if count > seen.unwritten.get(output, (0, 0))[0] and (before or not needs_confirmation(buffer)):
                seen.unwritten[output] = (count, buffer.size)
