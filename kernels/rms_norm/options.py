"""Defines the options of an RMS normalization, apart from its arrays. Imports no framework."""

from dataclasses import dataclass
from enum import StrEnum

from kernels.modes import Mode


class Casting(StrEnum):
    """The points at which the normalized row, computed in f32, is rounded to the input's dtype."""

    LLAMA = "llama"
    """The result is rounded before and after the multiplication by the weight."""

    GEMMA = "gemma"
    """The result is rounded only after the multiplication by the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmsNormOptions:
    """The static options of an RMS normalization. Raises ValueError for an invalid value.

    epsilon: is added to the mean of the squares.
    offset: is added to the weight; Gemma's is 1.
    """

    epsilon: float = 1e-6
    offset: float = 0.0
    casting: Casting = Casting.LLAMA
    mode: Mode = Mode.ALIASED

    def __post_init__(self) -> None:
        for name, kind in (("casting", Casting), ("mode", Mode)):
            value = getattr(self, name)
            if value not in list(kind):
                raise ValueError(f"Expected one of {', '.join(kind)} but got {name}={value!r}")
            object.__setattr__(self, name, kind(value))
        if not self.epsilon >= 0.0:
            raise ValueError(f"Expected a number that is not negative but got epsilon={self.epsilon}")
