"""Defines the options of a cross entropy loss, apart from its arrays. Imports no framework."""

import math
from dataclasses import dataclass
from enum import StrEnum

from kernels.modes import Mode


class Reduction(StrEnum):
    """How the losses of the rows become the loss."""

    MEAN = "mean"
    """The sum of the rows' losses, divided by the number of rows that are not ignored (at least 1)."""

    SUM = "sum"
    """The sum of the rows' losses."""

    NONE = "none"
    """The losses of the rows themselves, in the shape of the targets; 0 for an ignored row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOptions:
    """The static options of a loss. Raises ValueError for an invalid value.

    ignore_index: a row with this target counts for nothing.
    label_smoothing: the share, in [0, 1], of the target that is spread evenly over the vocabulary.
    logit_soft_cap: the logits become `cap * tanh(logits / cap)` first; None for no cap.
    z_loss: the squared logsumexp of a row, times this weight, is added to the row's loss.
    partitioned: whether XLA's partitioner, outside of a `shard_map`, calls the kernel on the rows that each device has.
    """

    ignore_index: int = -100
    label_smoothing: float = 0.0
    logit_soft_cap: float | None = None
    z_loss: float = 0.0
    reduction: Reduction = Reduction.MEAN
    mode: Mode = Mode.ALIASED
    partitioned: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("reduction", Reduction), ("mode", Mode)):
            value = getattr(self, name)
            if value not in list(kind):
                raise ValueError(f"Expected one of {', '.join(kind)} but got {name}={value!r}")
            object.__setattr__(self, name, kind(value))
        if not 0.0 <= self.label_smoothing <= 1.0:
            raise ValueError(f"Expected a share in [0, 1] but got label_smoothing={self.label_smoothing}")
        if self.logit_soft_cap is not None and not 0.0 < self.logit_soft_cap < math.inf:
            raise ValueError(f"Expected a positive number or None but got logit_soft_cap={self.logit_soft_cap}")
        if not 0.0 <= self.z_loss < math.inf:
            raise ValueError(f"Expected a weight of at least 0 but got z_loss={self.z_loss}")
