"""Defines how the parameters and activations of a model are split over a mesh of two axes. Imports no framework.

The axis `data` splits the batch, and under FSDP also the dimension `width` of each parameter. The axis `model` splits heads,
the MLP's inner dimension and the vocabulary (Shoeybi et al., arXiv 1909.08053). With `sequence` it also splits the tokens
between attention and MLP, where norms and residuals are computed (Korthikanti et al., arXiv 2205.05198).
"""

from dataclasses import dataclass

from kernels.llama.config import LlamaConfig, Parameter

DATA, MODEL = "data", "model"
BATCH = (DATA,)
"""The partition of the token ids, i32[batch, context]."""
MODEL_GPUS = 8
"""The most GPUs on the axis `model`: a host has 8 GPUs, and a Llama 3 has 8 key heads."""

type Partition = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One layout: how the parameters and activations of a model are split over the mesh."""

    name: str
    parameters: bool = False
    """Whether the parameters are split over `data` (FSDP)."""
    tensor: bool = False
    """Whether the axis `model` has more than one device."""
    sequence: bool = False
    """Whether the tokens between attention and MLP are split over `model`."""

    def split_devices(self, devices: int) -> dict[str, int]:
        """Returns the size of each mesh axis, by its name. Raises ValueError if there are too few devices for both axes."""
        if not self.tensor:
            return {DATA: devices, MODEL: 1}
        if self.parameters and devices < 4:
            raise ValueError(f"Expected at least 4 devices for `{self.name}` but got {devices=}")
        model = min(devices // 2 if self.parameters else devices, MODEL_GPUS)
        return {DATA: devices // model, MODEL: model}

    def split(self, parameter: Parameter, *, stored: bool = True) -> Partition:
        """Returns, for each dimension of a parameter, the mesh axis over which it is split; None if it is not split.

        stored: true for the parameter as it is stored; false for the parameter as a matrix product needs it, gathered along
        the axis `data`.
        """
        return tuple(self._split_dimension(name, stored) for name in parameter.dimensions)

    def _split_dimension(self, dimension: str, stored: bool) -> str | None:
        if dimension == "width":
            return DATA if self.parameters and stored else None
        return MODEL if self.tensor and dimension in {"heads", "key_heads", "inner", "vocabulary"} else None

    @property
    def hidden(self) -> Partition:
        """Returns the partition of activations, [batch, tokens, width]."""
        return (DATA, MODEL if self.sequence else None, None)

    @property
    def inside(self) -> Partition:
        """Returns the partition of the result of a column-parallel product, [batch, tokens, heads or inner, ...]."""
        return (DATA, None, MODEL if self.tensor else None)

    @property
    def vocabulary_axis(self) -> str | None:
        return MODEL if self.tensor else None


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout(name="dp"),
        Layout(name="fsdp", parameters=True),
        Layout(name="tp", tensor=True),
        Layout(name="fsdp+tp", parameters=True, tensor=True),
        Layout(name="fsdp+tp+sp", parameters=True, tensor=True, sequence=True),
    )
}


def count_sequences(devices: dict[str, int]) -> int:
    """Returns the batch size: one sequence for each device of `data`."""
    return devices[DATA]


def require_fit(config: LlamaConfig, mesh: dict[str, int]) -> None:
    """Raises ValueError if the key heads cannot be split evenly over the axis `model` of the mesh."""
    if config.key_heads % mesh[MODEL]:
        raise ValueError(f"Expected a multiple of {mesh[MODEL]}, the size of `{MODEL}`, but got {config.key_heads=}")
