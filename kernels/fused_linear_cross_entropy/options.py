"""Defines the options of a fused linear cross entropy, apart from its arrays. Imports no framework."""

from dataclasses import dataclass
from enum import StrEnum

from kernels.cross_entropy.options import LossOptions


class Accumulate(StrEnum):
    """The dtype in which the gradient of the weight is summed over the chunks; within a chunk it is always f32."""

    INPUT = "input"
    """The input's dtype: needs no more memory than the gradient itself, and rounds once for each chunk."""

    F32 = "f32"
    """f32: needs four additional bytes for each element of the weight, and twice the traffic for each chunk but
    the first.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedOptions:
    """The static options of the fused loss. Raises ValueError for an invalid value.

    logits_bytes: the largest size of one chunk's logits, in bytes; a chunk has at least one token, however large its logits.
    accumulate: the dtype in which the gradient of the weight is summed over the chunks.
    vocabulary_axis: in a `shard_map`, the mesh axis over which the vocabulary is split, so that each device has one part of
        it. None if each device has the whole vocabulary.
    """

    loss: LossOptions
    logits_bytes: int
    accumulate: Accumulate
    vocabulary_axis: str | None = None

    def __post_init__(self) -> None:
        if self.accumulate not in list(Accumulate):
            raise ValueError(f"Expected one of {', '.join(Accumulate)} but got accumulate={self.accumulate!r}")
        object.__setattr__(self, "accumulate", Accumulate(self.accumulate))
        if self.logits_bytes < 1:
            raise ValueError(f"Expected at least 1 byte but got logits_bytes={self.logits_bytes}")
        if self.vocabulary_axis is not None and self.loss.label_smoothing:
            raise ValueError(
                "Expected no label smoothing where the vocabulary is split "
                f"but got label_smoothing={self.loss.label_smoothing}"
            )
