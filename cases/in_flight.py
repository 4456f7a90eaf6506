"""A reader that XLA has sent on its way before the kernel, and that is not done when the kernel overwrites what it reads:
the doubts behind openxla/xla PR 48900 and ROCm/xla PR 839, on ordinary programs and with XLA's own flags.

- `gathered`: the logits of both devices are gathered, on the communication stream, for a statistic that wants them as they
  were. What it sees is up to the interconnect: no verdict can be given
- `stacked`: a scan stacks what the kernel leaves of each chunk's logits. XLA copies the logits into the stack on a stream of
  their own, and the copy begins before the kernel
"""

import itertools
from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

TOKENS, EMBEDDING, VOCABULARY, CHUNKS, DEVICES = 64, 64, 256, 4, 2
EXPECTED = {
    "gathered": {"top": "unknown", "*": "fresh"},
    "stacked": {"gradient": "stale", "*": "fresh"},
}
EXPECTED_RULES = {
    "gathered": ("LD005", "LD006"),
    "stacked": ("LD001", "LD005", "LD006"),
}


def make_args(variant: str) -> tuple[Arg, ...]:
    """Returns input, weight and targets; of `stacked`, input and targets in chunks."""
    chunks, rows = ((CHUNKS,), ()) if variant == "stacked" else ((), ("x",))
    return (
        Arg(shape=(*chunks, TOKENS, EMBEDDING), draw=Draw(seed=0), partition=rows),
        Arg(shape=(EMBEDDING, VOCABULARY), draw=Draw(seed=1)),
        Arg(
            shape=(*chunks, TOKENS),
            dtype="int32",
            draw=Draw(kind="randint", seed=2, high=VOCABULARY),
            partition=rows,
        ),
    )


def compute_gathered(mode: Mode, input: Any, weight: Any, targets: Any) -> dict[str, Any]:
    """Returns each device's loss, and the largest logit of each token of all devices."""
    import jax

    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    def compute_rows(input: Any, weight: Any, targets: Any) -> tuple[Any, Any]:
        logits = input @ weight
        everyone = jax.lax.all_gather(logits, "x", tiled=True)
        loss, _ = cross_entropy_with_gradient(logits, targets, mode=mode)
        return loss[None], everyone.max(-1)

    rows, whole = jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec()
    run = jax.shard_map(compute_rows, in_specs=(rows, whole, rows), out_specs=(rows, whole), check_vma=False)
    loss, top = run(input, weight, targets)
    return {"loss": loss, "top": top}


def compute_stacked(mode: Mode, input: Any, weight: Any, targets: Any) -> dict[str, Any]:
    """Returns the sum of the chunks' losses, and the gradient of the logits, f32[chunks, tokens, vocabulary]."""
    import jax

    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    def add_chunk(total: Any, chunk: tuple[Any, Any]) -> tuple[Any, Any]:
        loss, gradient = cross_entropy_with_gradient(chunk[0] @ weight, chunk[1], mode=mode)
        return total + loss, gradient

    loss, gradient = jax.lax.scan(add_chunk, 0.0, (input, targets))
    return {"loss": loss, "gradient": gradient}


def compute_reference(variant: str, input: Any, weight: Any, targets: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax

    from kernels.cross_entropy.reference import cross_entropy

    logits = input @ weight
    if variant == "stacked":
        losses, gradient = jax.vmap(jax.value_and_grad(cross_entropy))(logits, targets)
        return {"loss": losses.sum(), "gradient": gradient}
    shards = logits.reshape(DEVICES, -1, VOCABULARY), targets.reshape(DEVICES, -1)
    return {"loss": jax.vmap(cross_entropy)(*shards), "top": logits.max(-1)}


COMPUTE = {"gathered": compute_gathered, "stacked": compute_stacked}

CASES = tuple(
    Case(
        name="in_flight",
        function=partial(COMPUTE[variant], mode),
        args=make_args(variant),
        params=(variant, mode),
        mesh={"x": DEVICES} if variant == "gathered" else {},
        expected="fresh" if mode is Mode.ALIASED else EXPECTED[variant],
        expected_rules=() if mode is Mode.ALIASED else EXPECTED_RULES[variant],
        reference=partial(compute_reference, variant),
        about="a reader in flight while the kernel overwrites what it reads",
    )
    for variant, mode in itertools.product(("gathered", "stacked"), (Mode.HIDDEN, Mode.ALIASED))
)
