"""The real reports behind the rules from LD011 on: which case stands for each, and how near it comes."""

from ligerdiag.hazards.rule import Reproduction

INCIDENTAL_SHARING = (
    Reproduction(
        report="NVIDIA/TransformerEngine#2730",
        case="permuted_rows[aliased]",
        reproduced=(
            "a permutation of rows whose input and output share bytes: rows are read when others stand in them already"
        ),
        missing=(
            "how they came to share bytes undeclared: in `permuted_rows[out_of_place]` the operand is dead, and "
            "XLA gives the output bytes of its own. Nor autotuning, nor the dependence on the rest of the test "
            "suite"
        ),
    ),
    Reproduction(
        report="NVIDIA/TransformerEngine#2975",
        case="permuted_rows[out_of_place]",
        reproduced="the same kernel without the dummy buffer that the thread keeps for its sake: right here",
        missing="grids for each autotuned configuration, which the change itself is about",
    ),
)

LOSSY_WORKAROUND = (
    Reproduction(
        report="phlippe/liger_kernels (add_trivial_operations)",
        case="seed_flce[True-float32-True-4-2048-50304-1024]",
        reproduced=(
            "the gradient of the bias off by 25 % on an H200, and within the seed's own tolerance. Replay takes "
            "`--full`; `sharded_flce[batch-trivial]` is the small one"
        ),
        missing="a training run that suffers from it",
    ),
)

PARTIAL_WRITE = (
    Reproduction(
        report="jax-ml/jax#20227",
        case="partial_write[range-pallas-out_of_place]",
        reproduced=(
            "the Pallas kernel that stores elements 1 to 3 of 4: told from its IR. Of its twin in Triton replay "
            "counts two elements that nobody stores"
        ),
        missing="what stands in the others: on a GPU that hangs on who had the bytes before",
    ),
    Reproduction(
        report="jax-ml/jax#24023",
        case="partial_write[nothing-pallas-aliased]",
        reproduced=(
            "the kernel that stores nothing to two aliased outputs; on a GPU that is the inputs, and nothing is "
            "reported"
        ),
        missing="the zeros, which are a TPU's",
    ),
)

UNKNOWN_EFFECT = (
    Reproduction(
        report="pytorch/pytorch#129372",
        case="unknown_effect[hidden]",
        reproduced=(
            "a kernel that cannot be analysed: every output that hangs on it is unknown, the one that does not is fresh"
        ),
        missing=(
            "a mode that takes it to write everything: unknown outputs stay unknown. The thread itself could "
            "not be read"
        ),
    ),
)

WRONG_IN_PROGRAM_ORDER = (
    Reproduction(
        report="linkedin/Liger-Kernel#272",
        case="loop_carry[descent-hidden]",
        reproduced="logits and gradient are needed, and both are one array: wrong whatever the schedule",
        missing="PyTorch; the issue's own program is `saved_residual[softmax-loss-hidden]`, stale by its schedule",
    ),
    Reproduction(
        report="phlippe/liger_kernels (last_layer=False)",
        case="dropped_backward[hidden]",
        reproduced="the gradients lack the factor of the cotangent",
        missing="nothing that the code says; no number of it was published",
    ),
)
