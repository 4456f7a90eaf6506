"""The memory that a program needs is the memory that XLA itself reports."""

import subprocess
import sys
from pathlib import Path

from ligerdiag.hlo.buffers import MemoryDemand, compute_memory
from ligerdiag.hlo.xla_pb2 import BufferAssignmentProto

PROGRAMS = Path(__file__).parent / "programs"


def test_the_figures_are_those_of_xlas_memory_analysis() -> None:
    script = PROGRAMS / "compare_memory.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    plain, computed, donated, computed_donated = (
        [int(word) for word in line.split()] for line in done.stdout.splitlines()[-4:]
    )
    assert computed == plain
    assert computed_donated == donated
    assert plain[3] == 0
    assert donated[3] == 64 * 64 * 4


def test_each_kind_of_allocation_counts_but_constants_and_thread_local_memory_do_not() -> None:
    proto = BufferAssignmentProto()
    add = proto.buffer_allocations.add
    add(size=1, is_entry_computation_parameter=True)
    add(size=2, is_entry_computation_parameter=True, maybe_live_out=True)
    add(size=4, maybe_live_out=True)
    add(size=8)
    add(size=16, is_constant=True)
    add(size=32, is_thread_local=True)
    memory = compute_memory(proto)
    assert memory == MemoryDemand(argument=3, output=6, temp=8, alias=2)
    assert memory.peak == 15
