"""XLA puts two values into the same bytes while both are alive. No kernel overwrites anything behind its back.

- `pieces`: padded pieces of sharded arrays, added to what is gathered of them (https://github.com/jax-ml/jax/issues/39100,
  where four GPUs gave silently wrong values). On four devices one fusion has two results that both update one operand in
  place, at one offset; on two devices XLA makes another fusion, whose results have places of their own
- `two_aliases`: an output that is declared to be both of its operands
  (https://github.com/csarofeen/pytorch/issues/1984, where one of two aliases was ignored without a word). XLA puts all three
  into the same bytes, and the second operand is written over the first before the kernel reads it; `one_alias` is declared
  to be the first operand alone. LD018 names the two declarations, LD024 what comes of them

The first program has no kernel of its own. The kernel of the second is a Pallas kernel here; the report is one of PyTorch's.
"""

from functools import partial
from typing import Any

from ligerdiag.model.case import Arg, Case, Draw

DEVICES, ROWS, LOW, HIGH = 4, 2, 1, 2
PIECE = LOW + ROWS + HIGH
SIZE = 256
PIECES = (
    Arg(shape=(DEVICES * ROWS,), draw=Draw(seed=0), partition=("x",)),
    Arg(shape=(DEVICES * PIECE,), draw=Draw(seed=1), partition=("x",)),
)
VECTORS = (Arg(shape=(SIZE,), draw=Draw(seed=0)), Arg(shape=(SIZE,), draw=Draw(seed=1)))


def add_pieces(x: Any, z: Any) -> dict[str, Any]:
    """Returns the sum of what is gathered of two arrays of padded pieces."""
    return {"sum": _gather(_spread(x) * z) + _gather(_spread(_gather(z)))}


def add_pieces_reference(x: Any, z: Any) -> dict[str, Any]:
    """Returns the same: gathered, a padded array is what it was."""
    rows = z.reshape(DEVICES, PIECE)[:, LOW : LOW + ROWS].reshape(-1)
    return {"sum": x * rows + rows}


def _spread(rows: Any) -> Any:
    import jax.numpy as jnp

    return jnp.concatenate([jnp.pad(rows[ROWS * i : ROWS * (i + 1)], (LOW, HIGH)) for i in range(DEVICES)])


def _gather(pieces: Any) -> Any:
    import jax.numpy as jnp

    return jnp.concatenate([pieces[PIECE * i + LOW : PIECE * i + LOW + ROWS] for i in range(DEVICES)])


def add_vectors(aliases: dict[int, int], a: Any, b: Any) -> dict[str, Any]:
    """Returns tanh(a) + sin(b) by a kernel. aliases: number of an operand to that of the output in whose place it is."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    shape = jax.ShapeDtypeStruct(a.shape, a.dtype)
    params = triton.CompilerParams(num_warps=1)
    call = pl.pallas_call(_add_kernel, out_shape=shape, input_output_aliases=aliases, compiler_params=params)
    return {"sum": call(jnp.tanh(a), jnp.sin(b))}


def _add_kernel(a_ref: Any, b_ref: Any, sum_ref: Any) -> None:
    sum_ref[...] = a_ref[...] + b_ref[...]


def add_vectors_reference(a: Any, b: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax.numpy as jnp

    return {"sum": jnp.tanh(a) + jnp.sin(b)}


CASES = (
    *(
        Case(
            name="shared_bytes",
            function=add_pieces,
            args=PIECES,
            params=("pieces", devices),
            mesh={"x": devices},
            expected={"sum": "clobbered"} if devices == DEVICES else "fresh",
            expected_rules=("LD024",) if devices == DEVICES else (),
            reference=add_pieces_reference,
            about="jax issue 39100: two results of one fusion in one place",
        )
        for devices in (2, DEVICES)
    ),
    *(
        Case(
            name="shared_bytes",
            function=partial(add_vectors, aliases),
            args=VECTORS,
            params=(variant,),
            expected={"sum": "clobbered"} if len(aliases) > 1 else "fresh",
            expected_rules=("LD018", "LD024") if len(aliases) > 1 else (),
            reference=add_vectors_reference,
            about="csarofeen/pytorch issue 1984: two aliases of one buffer",
        )
        for variant, aliases in (("two_aliases", {0: 0, 1: 0}), ("one_alias", {0: 0}))
    ),
)
