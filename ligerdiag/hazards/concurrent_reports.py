"""The real reports behind LD005 and LD010: which case stands for each, and how near it comes."""

from ligerdiag.hazards.rule import Reproduction

CONCURRENT_ACCESS = (
    Reproduction(
        report="openxla/xla#48900",
        case="in_flight[stacked-hidden]",
        reproduced=(
            "an async operation that the schedule leaves in flight around the kernel: the copy of the logits into a scan's "
            "stack, on a computation stream, with default flags"
        ),
        missing="the order that async operations lose inside of a command buffer, which is XLA's own matter",
    ),
    Reproduction(
        report="ROCm/xla#839",
        case="in_flight[gathered-hidden]",
        reproduced="a collective on the communication stream, over two devices, while the kernel writes its operand",
        missing="AMD GPUs, and a command buffer as the other side: jax-triton 0.3.1's call is never inside of one",
    ),
    Reproduction(
        report="openxla/xla#27412",
        case="pallas_cross_entropy[products-hidden]",
        reproduced=(
            "a Pallas kernel inside of a command buffer; with the scheduling mode CONCURRENT it and the readers of its "
            "operand are found unordered (in a test of the analysis, for a case sets no flags)"
        ),
        missing="control dependences that get lost: XLA keeps them since",
    ),
)

AUTOTUNED_IN_PLACE = tuple(
    Reproduction(
        report=report,
        case="autotuned[hidden]",
        reproduced="a kernel with two configurations that overwrites its operand, declared and not",
        missing=missing,
    )
    for report, missing in (
        ("triton-lang/triton#54", "PyTorch; and the wrong numbers, for replay runs no autotuned kernel"),
        ("triton-lang/triton#6547", "PyTorch, `reset_to_zero` and `restore_value`, which jax-triton does not look at"),
        (
            "NVIDIA/TransformerEngine#2814",
            "aliases that are declared to XLA and not to the launcher: jax-triton tells both",
        ),
        (
            "jax-ml/jax#35218",
            "the crash of jaxlib's launcher, mended in March 2026; what it restores was read, not run",
        ),
    )
)
