"""The real reports behind the rules, LD001 to LD009: which case stands for each, and how near it comes."""

from ligerdiag.hazards.rule import Reproduction

_SEED = "phlippe/liger_kernels"
_SEED_CASE = "seed_flce[False-float32-True-1-4-32-16]"
_NOT_WARP = "Warp and the FFI; the kernel here is Triton's"

STALE_READ = (
    Reproduction(
        report=f"{_SEED} (README: the failing table)",
        case=_SEED_CASE,
        reproduced=(
            "the failing rows as cases under the same ids; gradients computed from the logits, in the schedule, "
            "in replay and on H200s"
        ),
        missing=(
            "the table itself, made in late 2024 by JAX 0.4.34: with today's toolchain more rows fail than the "
            "four published"
        ),
    ),
    Reproduction(
        report="linkedin/Liger-Kernel#272",
        case="saved_residual[softmax-loss-hidden]",
        reproduced="softmax, then the cross entropy that overwrites its result: the gradient is stale (LD002)",
        missing=(
            "PyTorch, where the saved tensor itself is overwritten; JAX's softmax saves none, and XLA computes it anew"
        ),
    ),
    Reproduction(
        report="NVIDIA/warp#745",
        case="accumulated_sum[twice-hidden]",
        reproduced=(
            "the second call does not build on what the first one left: stale (LD002), for XLA makes one call of "
            "the two (LD008)"
        ),
        missing=f"{_NOT_WARP}. A reader that is merely too early is not in the report",
    ),
    Reproduction(
        report="flatironinstitute/jaxmg#12 (mends #11)",
        case="undonated_parameter[kept-hidden]",
        reproduced=(
            "a call overwrites an argument that it declares to read (LD009), and the remedy, aliases: "
            "`undonated_parameter[kept-aliased]`"
        ),
        missing="cuSOLVERMg, several GPUs and shard_map; a reader that is merely too early is not in the report",
    ),
)

STALE_COPY = (
    Reproduction(
        report=f"{_SEED} (README: not robust on multi-GPU)",
        case="sharded_flce[vocabulary-trivial]",
        reproduced=(
            "the workaround under a sharded vocabulary: every gradient stale, read from the shard that was "
            "gathered; the same on two H200s"
        ),
        missing="the training of a Llama, of which the README speaks",
    ),
    Reproduction(
        report="openxla/xla#20440",
        case="barrier_copy[plain-barrier]",
        reproduced="the program, with the barrier; compiled for a GPU it copies nothing, and there is nothing to order",
        missing="the two copies in front of the update, which are XLA:CPU's",
    ),
    Reproduction(
        report="jax-ml/jax#25399",
        case="barrier_copy[kernel-barrier]",
        reproduced=(
            "a copy that XLA inserts of what a kernel overwrites, behind a barrier: it is made after the "
            "kernel, and fresh. Without the barrier, `barrier_copy[kernel-hidden]`, one output is stale"
        ),
        missing="a barrier that a copy defeats: on a GPU none was found",
    ),
)

LATENT_ORDER = (
    Reproduction(
        report=f'{_SEED} (README: "seems to be by chance")',
        case=_SEED_CASE,
        reproduced="beside stale gradients one, `weight`, that is right in this schedule and that nothing forces to be",
        missing="the schedule of the author's GPU",
    ),
)

CLOBBERED_READ = (
    Reproduction(
        report="linkedin/Liger-Kernel#272",
        case="saved_residual[exp-perplexity-hidden]",
        reproduced=(
            "the explanation in the thread: `exp` saves its result, the loss overwrites it, the backward pass "
            "reads it: clobbered"
        ),
        missing="PyTorch, and its check of versions that does not notice",
    ),
    Reproduction(
        report="linkedin/Liger-Kernel#1251",
        case="saved_residual[softmax-loss-out_of_place]",
        reproduced="the remedy, a gradient with memory of its own: fresh, for every activation and objective",
        missing="its second point, a clone that loses `requires_grad`: JAX has no such flag",
    ),
)

UNDECLARED_WRITE = (
    Reproduction(
        report="NVIDIA/warp#745",
        case="accumulated_sum[argument-hidden]",
        reproduced="a kernel adds to an input by atomics, and the call declares another output only: found in its IR",
        missing=_NOT_WARP,
    ),
    Reproduction(
        report="SpeedyWeather/SpeedyWeather.jl#985",
        case="sub_views[hidden]",
        reproduced=(
            "calls that overwrite parts of one array, and say that they do not: found in their IR, and the "
            "gradients are stale"
        ),
        missing=(
            "the NaN, which came of live buffers laid over each other: Reactant's calls on the CPU do declare "
            "their alias; here each kernel gets a copy of its slice"
        ),
    ),
)

VANISHED_CALL = (
    Reproduction(
        report=f"{_SEED} (the backward pass)",
        case="dropped_backward[hidden]",
        reproduced=(
            "the three kernels without outputs that should scale the gradients: none is in the program, which "
            "is wrong by the cotangent"
        ),
        missing="nothing that the code says; no number of it was published",
    ),
    Reproduction(
        report="jax-ml/jax#3829",
        case="dropped_backward[hidden]",
        reproduced="a call without outputs, dropped by JAX",
        missing="messages between processes: the call here is a kernel, and its effect is in memory",
    ),
    Reproduction(
        report="jax-ml/jax#11620",
        case="accumulated_sum[unused-hidden]",
        reproduced="a call whose outputs nobody uses, dropped by JAX",
        missing="MPI, and a call that says it has side effects: jax-triton 0.3 cannot say it",
    ),
    Reproduction(
        report="NVIDIA/warp#1240",
        case="accumulated_sum[unused-hidden]",
        reproduced="a call whose outputs nobody uses, gone from the program",
        missing="pmap, and `has_side_effect` as the remedy",
    ),
    Reproduction(
        report="pytorch/pytorch#170808",
        case="unknown_effect[hidden]",
        reproduced="a kernel that cannot be analysed is in the compiled program, and counts as unknown (LD014)",
        missing="the kernel that Inductor removes, for want of an analysis: XLA does not look into kernels",
    ),
    Reproduction(
        report="ROCm/pytorch#3398",
        case="unknown_effect[hidden]",
        reproduced="as for pytorch/pytorch#170808",
        missing="as for pytorch/pytorch#170808",
    ),
)

DOUBLE_WRITE = (
    Reproduction(
        report="EnzymeAD/Enzyme-JAX#2968",
        case="same_buffer_twice[hidden]",
        reproduced=(
            "one buffer for what a kernel reads and what it overwrites. XLA hands over the same bytes twice, "
            "and the update arrives by luck of the schedule (LD003)"
        ),
        missing="the update that is lost: the runtime of Reactant kept the wrong view of the two",
    ),
    Reproduction(
        report="pytorch/pytorch#196657",
        case="",
        reproduced="nothing: the thread could not be read, so nothing is said of it",
        missing="all of it. What the rule finds is shown by `two_losses[same-hidden]` and `two_losses[rows-hidden]`",
    ),
)

CALLER_CLOBBERED = (
    Reproduction(
        report="jax-ml/jax#39625",
        case="donated_outputs[donated-last]",
        reproduced=(
            "the program; XLA lets the zeros stand in the bytes of the state and copies the state first. "
            "Schedule and replay are right"
        ),
        missing=(
            "the wrong numbers, which are a GPU's. The copies are nodes of one CUDA graph, whose order is not "
            "judged here"
        ),
    ),
    Reproduction(
        report="pytorch/xla#8422",
        case="undonated_parameter[kept-hidden]",
        reproduced="bytes that somebody else still needs are overwritten by a program that was not given them",
        missing="`xm.save`, which donates a lazy tensor by mistake: in JAX only the caller donates",
    ),
)
