"""Names the values that a kernel hits outside of its buffers, in the observations of its launches."""

from collections.abc import Sequence
from dataclasses import replace

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.hits import find_hit
from ligerdiag.hlo.module import HloModule
from ligerdiag.model.findings import LaunchNumbers


def name_hits(
    launches: Sequence[LaunchNumbers], module: HloModule, buffers: BufferAssignment
) -> tuple[LaunchNumbers, ...]:
    """Returns the observations, with the values in the bytes outside of their buffers named."""
    if not any(one.outside for one in launches):
        return tuple(launches)
    positions = Positions(module, buffers)
    calls = {i.name: i for c in module.computations.values() for i in c.sequence}
    named: list[LaunchNumbers] = []
    for launch in launches:
        call = calls.get(launch.instruction)
        if call is None:
            named.append(launch)
            continue
        outside = tuple(replace(one, hit=find_hit(one, call, module, buffers, positions)) for one in launch.outside)
        named.append(replace(launch, outside=outside))
    return tuple(named)
