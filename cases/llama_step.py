"""The seed's sentence on the gradients of a Llama: the trivial operations are "not robust and fail for training a LLM like
Llama on multi-GPU setups" (https://github.com/phlippe/liger_kernels).

One layer on four devices, as small as it can be, no optimizer: kernels/llama/grid.py has whole train steps up to 70B on 512
devices. `shard_map` is the remedy, each device with its own part of the vocabulary.
"""

from dataclasses import replace
from functools import partial

from kernels.llama.config import CONFIGS
from kernels.llama.grid import SHARD_MAP, choose_fused, compute_without_optimizer, make_args
from kernels.llama.layout import LAYOUTS
from kernels.modes import Mode
from ligerdiag.model.case import Case

CONFIG = replace(CONFIGS["tiny"], layers=1)
EXPECTED = {"loss": "fresh", "*": "stale"}
ROWS = (
    ("fsdp", Mode.TRIVIAL, EXPECTED),
    ("fsdp+tp", SHARD_MAP, "fresh"),
)


def make_case(layout: str, mode: str, expected: str | dict[str, str]) -> Case:
    """Returns one row's case."""
    chosen = LAYOUTS[layout]
    mesh = chosen.split_devices(4)
    state, *ids = make_args(CONFIG, chosen, mesh)
    return Case(
        name="llama_step",
        params=(layout, mode),
        function=partial(compute_without_optimizer, CONFIG, chosen, choose_fused(mode)),
        args=(state["params"], *ids),
        mesh=mesh,
        expected=expected,
        about="phlippe/liger_kernels: the workaround in a Llama on several GPUs",
    )


CASES = tuple(make_case(*row) for row in ROWS)
