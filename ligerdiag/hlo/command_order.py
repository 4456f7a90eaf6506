"""In which order a command buffer runs its commands, from XLA's flags.

(1) `xla_gpu_command_buffer_scheduling_mode`: SERIALIZE and LHS, which is the default, keep the order of the schedule, async
    spans apart. CONCURRENT and CONCURRENT_REGIONS keep the order of two commands only where the buffers that they *declare*
    conflict, or a control edge says so (CreateCommandOperations in xla/backends/gpu/runtime/command_executor.cc).
(2) Before, `xla_gpu_graph_enable_concurrent_region` stood for CONCURRENT, and was false.
"""

import re
from enum import Enum

_MODE = re.compile(r"\bxla_gpu_command_buffer_scheduling_mode[\"'\s:=]+(\w+)", re.ASCII)
_REGIONS = re.compile(r"\bxla_gpu_graph_enable_concurrent_region\b(?:[\"'\s:=]+(\w+))?", re.ASCII)


class CommandOrder(Enum):
    """The order that two commands of one command buffer keep."""

    SCHEDULE = "schedule"
    """That of the schedule."""
    DECLARED = "declared"
    """Only what the declared uses of buffers force."""
    UNKNOWN = "unknown"


_MODES = {
    "SERIALIZE": CommandOrder.SCHEDULE,
    "0": CommandOrder.SCHEDULE,
    "LHS": CommandOrder.SCHEDULE,
    "2": CommandOrder.SCHEDULE,
    "CONCURRENT": CommandOrder.DECLARED,
    "1": CommandOrder.DECLARED,
    "CONCURRENT_REGIONS": CommandOrder.DECLARED,
}


def parse_command_order(flags: str) -> CommandOrder:
    """From flags in any form: `--name=value`, `name: value` of a dump's debug options, JSON. The last one counts."""
    modes = _MODE.findall(flags)
    if modes:
        return _MODES.get(modes[-1].upper(), CommandOrder.UNKNOWN)
    regions = _REGIONS.findall(flags)
    if regions and regions[-1].lower() not in ("false", "0"):
        return CommandOrder.DECLARED
    return CommandOrder.SCHEDULE
