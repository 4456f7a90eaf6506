"""Records about XLA's autotuner: a file with the choices that it made on a GPU, and the instructions of one compile for
which it chooses an implementation.

XLA's autotuner measures on a GPU which of several implementations of an instruction is fastest, such as a Triton kernel
or a call of cuBLAS for a product of matrices. Without a GPU, XLA takes the first implementation that it can compile.
"""

from dataclasses import dataclass
from enum import StrEnum

TUNING_LEVEL = "xla_gpu_autotune_level"
"""XLA's compiler option that says how thoroughly its autotuner measures; 0 disables it."""

TUNING_LOG = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "config_assigner=1,autotuner=1"}
"""Environment variables with which XLA logs the instructions that it looks up in a file of choices. XLA reads them when it
is loaded.
"""


class TuningForm(StrEnum):
    """The two forms in which XLA writes the choices of its autotuner; each is a protobuf message."""

    RESULTS = "results"
    """`AutotuneResults`, whose entries give the name of the GPU and the text of the HLO."""
    CACHE = "cache"
    """`AutotuneCache`, which has fingerprints of the GPU and of the HLO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningFile:
    """A file with the choices of XLA's autotuner. ligerdiag keeps its own copy of the file, which never changes."""

    name: str
    """Name of the file, without its folder."""
    sha256: str
    """Digest of the file."""
    entries: int
    """Number of choices in the file."""
    form: TuningForm
    copy: str
    """Absolute path of the copy, which XLA reads. Its name is the digest of its contents."""
    copy_sha256: str
    notes: tuple[str, ...] = ()
    """One line for each target whose entries were recorded with another version of cuDNN than the target has."""


class TunedKind(StrEnum):
    """The kinds of instructions for which XLA's autotuner chooses an implementation."""

    PRODUCT = "product"
    """A product of matrices: a fusion that Triton or cuDNN computes, or a call of cuBLAS."""
    CONVOLUTION = "convolution"
    FUSION = "fusion"
    """Any other fusion. The autotuner chooses the code that computes it, which moves no read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedInstruction:
    """An instruction for which XLA's autotuner chooses an implementation."""

    name: str
    """Name of the instruction at the time of XLA's choice, which may replace the instruction by others."""
    kind: TunedKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The choices of XLA's autotuner in one compile for a GPU that is only described."""

    file: str = ""
    """Name of the file that the choices come from; empty if there is none."""
    sha256: str = ""
    """Digest of that file; empty if there is none."""
    entries: int = 0
    """Number of choices in the file."""
    counted: bool = True
    """Whether XLA's log says which instructions have an entry in the file. If it does not, `recorded` and `open` are
    empty.
    """
    recorded: tuple[TunedInstruction, ...] = ()
    """The instructions whose implementation comes from the file. If several instructions are equal to the autotuner,
    only one of them is listed.
    """
    open: tuple[TunedInstruction, ...] = ()
    """The instructions for which the autotuner on a GPU may choose another implementation. If there is a file, these
    are the instructions without an entry in it; otherwise, the products and convolutions of the schedule.
    """
