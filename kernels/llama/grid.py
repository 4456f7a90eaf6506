"""Defines cases: the train step in every mode of the loss, on 1 to 512 GPUs:

    ligerdiag check 'kernels/llama/grid.py::llama[fsdp+tp-70B-512-shard_map]' --no-replay

Only the loss is a kernel, as in the seed. The modes are those of `kernels.modes`, for a user who annotates his arrays and
leaves the rest to XLA's partitioner. The mode `shard_map` is `aliased` in a `shard_map`: each device calls the kernel on its
own tokens and, if the vocabulary is split, on its own part of the vocabulary. The kernel overwrites all logits at once,
unless the id ends in a member of `config.Logits`: `seed` is the program that the seed warns of, `partitioned` a remedy
without `shard_map`. `python -m tools.llama_grid` judges all cases.
"""

from functools import partial
from typing import Any

from kernels.llama.config import CONFIGS, Fused, LlamaConfig, Logits, Parameter, list_parameters, map_tree
from kernels.llama.layout import BATCH, LAYOUTS, Layout, count_sequences, require_fit
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

SHARD_MAP = "shard_map"
MODES = (*Mode, SHARD_MAP)
SIZES = {1: "100M", 2: "100M", 8: "1B", 64: "8B", 512: "70B"}
"""The size of the model for each number of GPUs."""


def choose_fused(mode: str, logits: Logits = Logits.WHOLE, *, every: bool = False) -> Fused:
    """Returns a `Fused` record: the model calls the loss kernel, or all kernels if `every` is true, each in the mode
    `mode`.
    """
    own = Mode.ALIASED if mode == SHARD_MAP else Mode(mode)
    others = own if every else None
    return Fused(loss=own, norm=others, rope=others, gate=others, per_device=mode == SHARD_MAP, logits=logits)


def compute(config: LlamaConfig, layout: Layout, fused: Fused, *arrays: Any) -> dict[str, Any]:
    """Returns loss, norm of the gradient and the next state. arrays: as `make_args` returns them."""
    from kernels.llama.step import train_step

    state, tokens, targets = arrays
    return train_step(state, tokens, targets, config=config, layout=layout, fused=fused)


def compute_without_optimizer(config: LlamaConfig, layout: Layout, fused: Fused, *arrays: Any) -> dict[str, Any]:
    """Returns loss, gradients and the norm of the gradients. arrays: parameters, tokens and targets."""
    from kernels.llama.step import compute_gradients

    params, tokens, targets = arrays
    return compute_gradients(params, tokens, targets, config=config, layout=layout, fused=fused)


def make_args(config: LlamaConfig, layout: Layout, mesh: dict[str, int]) -> tuple[Any, ...]:
    """Returns the arguments of `compute`: the state, all of it donated, tokens and targets."""
    parameters = list_parameters(config)

    def make(draw: Draw | None) -> Any:
        def make_arg(parameter: Parameter) -> Arg:
            own = draw or Draw(scale=parameter.deviation or 1.0)
            return Arg(shape=parameter.shape, partition=layout.split(parameter), draw=own, donate=True)

        return map_tree(make_arg, parameters)

    state = {
        "params": make(None),
        "mu": make(Draw(scale=1e-3)),
        "nu": make(Draw(kind="squares", scale=1e-6)),
        "count": Arg(shape=(), dtype="int32", donate=True),
    }
    ids = [
        Arg(
            shape=(count_sequences(mesh), config.context),
            dtype="int32",
            partition=BATCH,
            draw=Draw(kind="randint", seed=seed, high=config.vocabulary),
        )
        for seed in (1, 2)
    ]
    return state, *ids


def make_case(
    layout: Layout, size: str, devices: int, mode: str, *, logits: Logits = Logits.WHOLE, **words: Any
) -> Case:
    """Returns one case; `words` are further fields of `Case`. Raises ValueError if the layout does not fit the devices."""
    config, mesh = CONFIGS[size], layout.split_devices(devices)
    require_fit(config, mesh)
    return Case(
        params=(layout.name, size, devices, mode)
        if logits is Logits.WHOLE
        else (layout.name, size, devices, mode, logits),
        function=partial(compute, config, layout, choose_fused(mode, logits)),
        args=make_args(config, layout, mesh),
        mesh=mesh,
        **{"name": "llama", "mitigation": mode, **words},
    )


def list_layouts(devices: int) -> tuple[Layout, ...]:
    """Returns the layouts for this number of GPUs; with one GPU nothing can be split."""
    names = ("dp",) if devices == 1 else ("dp", "fsdp", "tp") if devices == 2 else ("dp", "fsdp", "tp", "fsdp+tp")
    return tuple(LAYOUTS[name] for name in names)


_MODES = {
    Logits.WHOLE: MODES,
    Logits.PARTITIONED: (Mode.ALIASED,),
    Logits.SEED: (Mode.HIDDEN, Mode.TRIVIAL),
}

CASES = tuple(
    make_case(layout, size, devices, mode, logits=logits)
    for devices, size in SIZES.items()
    for layout in list_layouts(devices)
    for logits, modes in _MODES.items()
    for mode in modes
)
