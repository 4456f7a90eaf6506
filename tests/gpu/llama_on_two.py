"""Loss and gradients of a one-layer Llama on two devices, in every layout and mode; cases/llama_step.py has two of them
on four devices.
"""

from dataclasses import replace
from functools import partial

from kernels.llama.config import CONFIGS
from kernels.llama.grid import MODES, choose_fused, compute_without_optimizer, list_layouts, make_args
from kernels.llama.layout import Layout
from ligerdiag.model.case import Case

CONFIG = replace(CONFIGS["tiny"], layers=1)
DEVICES = 2


def make_case(layout: Layout, mode: str) -> Case:
    """Returns the case of one row."""
    mesh = layout.split_devices(DEVICES)
    state, *ids = make_args(CONFIG, layout, mesh)
    function = partial(compute_without_optimizer, CONFIG, layout, choose_fused(mode))
    return Case(name="two", params=(layout.name, mode), function=function, args=(state["params"], *ids), mesh=mesh)


CASES = tuple(make_case(layout, mode) for layout in list_layouts(DEVICES) for mode in MODES)
