"""The Triton kernels, one program for each row: loss and logsumexp, with or without overwriting the logits by the gradient.

- A program reads its row once for the logsumexp and once more for the gradient. The second read finds most of the row in the
  L2 cache. Few programs run at a time, the blocks come in the opposite order, and elements that are read or written for the
  last time are marked as the first to be dropped.
- Each thread keeps a maximum and a sum of its own for every `LANES` neighbouring logits (Milakov and Gimelshein's algorithm
  3, arXiv 1805.02867). So the threads wait for one another once for each row, not once for each block.
- Exponentials are powers of two: `exp(x - m) = exp2(x * log2(e) - m * log2(e))` is one multiply-add and one instruction.
  The rounding of `m * log2(e)` is a common factor of all exponentials and of their sum, and cancels.
"""

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def load_logits(pointer, exists, SOFT_CAP: tl.constexpr, EVICTION: tl.constexpr):
    """Returns logits in f32, capped if there is a cap; -inf where `exists` is false."""
    x = tl.load(pointer, mask=exists, other=float("-inf"), eviction_policy=EVICTION).to(tl.float32)
    if SOFT_CAP > 0:
        x = SOFT_CAP * _tanh(x / SOFT_CAP)
        x = tl.where(exists, x, float("-inf"))
    return x


@triton.jit
def _tanh(u):
    return 1.0 - 2.0 / (tl.exp2(u * (2.0 * _LOG2_E)) + 1.0)


@triton.jit
def _compute_row_statistics(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    logits_ptr,
    VOCABULARY: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    SUM: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):
    """Returns max(x) * log2(e), sum(exp(x - max(x))) and, if SUM, sum(x) of a row; see 2 and 3."""
    groups: tl.constexpr = BLOCK // LANES
    maximum = tl.full([groups], float("-inf"), tl.float32)
    denominator = tl.zeros([groups], tl.float32)
    total = tl.zeros([groups], tl.float32)
    lane = tl.arange(0, groups)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    for start in range(0, VOCABULARY, BLOCK):
        column = start + lane
        x = load_logits(logits_ptr + column, column < VOCABULARY, SOFT_CAP, "")
        if SUM:
            total += tl.sum(tl.where(column < VOCABULARY, x, 0.0), axis=1)
        higher = tl.maximum(maximum, tl.max(x, axis=1) * _LOG2_E)
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # a row may begin with -inf
        powers = tl.exp2(x * _LOG2_E - shift[:, None])
        denominator = denominator * tl.exp2(maximum - shift) + tl.sum(powers, axis=1)
        maximum = higher
    highest = tl.max(maximum, axis=0)
    shift = tl.where(highest == float("-inf"), 0.0, highest)
    return highest, tl.sum(denominator * tl.exp2(maximum - shift), axis=0), tl.sum(total, axis=0)


@triton.jit
def _compute_loss(  # noqa: PLR0917
    lse, at_target, total, VOCABULARY: tl.constexpr, SMOOTHING: tl.constexpr, Z_LOSS: tl.constexpr
):
    loss = lse - (1.0 - SMOOTHING) * at_target
    if SMOOTHING > 0:
        loss -= SMOOTHING / VOCABULARY * total
    if Z_LOSS > 0:
        loss += Z_LOSS * lse * lse
    return loss


@triton.jit
def cross_entropy_forward_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    logits_ptr,
    targets_ptr,
    loss_ptr,
    lse_ptr,
    VOCABULARY: tl.constexpr,
    IGNORE_INDEX: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    Z_LOSS: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * VOCABULARY
    target = tl.load(targets_ptr + row)
    if target == IGNORE_INDEX:
        tl.store(loss_ptr + row, 0.0)
        tl.store(lse_ptr + row, 0.0)
        return
    exists = (target >= 0) & (target < VOCABULARY)
    at_target = load_logits(logits_ptr + target, exists, SOFT_CAP, "")
    maximum, denominator, total = _compute_row_statistics(logits_ptr, VOCABULARY, SOFT_CAP, SMOOTHING > 0, BLOCK, LANES)
    lse = (maximum + tl.log2(denominator)) * _LN_2
    loss = _compute_loss(lse, at_target, total, VOCABULARY, SMOOTHING, Z_LOSS)
    # A target outside of the vocabulary makes the loss of its row NaN.
    tl.store(loss_ptr + row, tl.where(exists, loss, float("nan")))
    tl.store(lse_ptr + row, lse)


@triton.jit
def cross_entropy_kernel(  # noqa: PLR0917
    logits_ptr,
    targets_ptr,
    scale_ptr,
    loss_ptr,
    lse_ptr,
    destination_ptr,
    VOCABULARY: tl.constexpr,
    IGNORE_INDEX: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    Z_LOSS: tl.constexpr,
    SCALE_STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    if destination_ptr is None:
        destination_ptr = logits_ptr
    logits_ptr += row * VOCABULARY
    destination_ptr += row * VOCABULARY
    target = tl.load(targets_ptr + row)
    if target == IGNORE_INDEX:
        for start in range(0, VOCABULARY, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tl.store(destination_ptr + column, 0.0, mask=column < VOCABULARY)
        tl.store(loss_ptr + row, 0.0)
        tl.store(lse_ptr + row, 0.0)
        return
    exists = (target >= 0) & (target < VOCABULARY)
    at_target = load_logits(logits_ptr + target, exists, SOFT_CAP, "")
    maximum, denominator, total = _compute_row_statistics(logits_ptr, VOCABULARY, SOFT_CAP, SMOOTHING > 0, BLOCK, LANES)
    lse = (maximum + tl.log2(denominator)) * _LN_2
    loss = _compute_loss(lse, at_target, total, VOCABULARY, SMOOTHING, Z_LOSS)
    tl.store(loss_ptr + row, tl.where(exists, loss, float("nan")))
    tl.store(lse_ptr + row, lse)

    # A target outside of the vocabulary makes the gradient of its row NaN, too.
    scale = tl.where(exists, tl.load(scale_ptr + row * SCALE_STRIDE), float("nan"))
    factor = scale / denominator
    if Z_LOSS > 0:
        factor *= 1.0 + 2.0 * Z_LOSS * lse
    smoothing = scale * (SMOOTHING / VOCABULARY)
    blocks: tl.constexpr = (VOCABULARY + BLOCK - 1) // BLOCK
    for block in range(blocks):
        column = (blocks - 1 - block) * BLOCK + tl.arange(0, BLOCK)
        x = load_logits(logits_ptr + column, column < VOCABULARY, SOFT_CAP, "evict_first")
        gradient = tl.exp2(x * _LOG2_E - maximum) * factor
        if SMOOTHING > 0:
            gradient -= smoothing
        if SOFT_CAP > 0:
            gradient *= 1.0 - (x / SOFT_CAP) * (x / SOFT_CAP)
        tl.store(destination_ptr + column, gradient, mask=column < VOCABULARY, cache_modifier=".cs")
    tl.debug_barrier()
    # Computed again rather than loaded: the gradient stands there rounded to the logits' dtype.
    gradient = tl.exp2(at_target * _LOG2_E - maximum) * factor - smoothing - scale * (1.0 - SMOOTHING)
    if SOFT_CAP > 0:
        gradient *= 1.0 - (at_target / SOFT_CAP) * (at_target / SOFT_CAP)
    tl.store(destination_ptr + target, gradient, mask=exists)
