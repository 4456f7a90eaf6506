"""Defines the options of a divergence between two rows of logits, apart from its arrays. Imports no framework."""

from dataclasses import dataclass

from kernels.cross_entropy.options import Reduction
from kernels.modes import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceOptions:
    """The static options of a divergence. Raises ValueError for an invalid value.

    temperature: divides both rows of logits; the loss is not multiplied by its square. reduction: a mean is over the rows,
    not over the elements.
    """

    temperature: float = 1.0
    reduction: Reduction = Reduction.MEAN
    mode: Mode = Mode.ALIASED

    def __post_init__(self) -> None:
        for name, kind in (("reduction", Reduction), ("mode", Mode)):
            value = getattr(self, name)
            if value not in list(kind):
                raise ValueError(f"Expected one of {', '.join(kind)} but got {name}={value!r}")
            object.__setattr__(self, name, kind(value))
        if not 0.0 < self.temperature < float("inf"):
            raise ValueError(f"Expected a positive number but got temperature={self.temperature}")
