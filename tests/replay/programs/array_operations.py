"""Sorting, random numbers, bits, indices, products and functions of arrays."""

from typing import Any

import jax
import jax.numpy as jnp

from tests.replay.programs.arguments import draw_ids, draw_normal, make_case


def sorting(x: Any) -> Any:
    order = jnp.argsort(x, axis=-1)
    return {
        "sorted": jnp.sort(x, axis=0),
        "order": order,
        "descending": -jnp.sort(-x, axis=-1),
        "median": jnp.median(x),
    }


def sort_pairs(keys: Any, values: Any) -> Any:
    return jax.lax.sort((keys, values, -values), num_keys=2)


def cumulative(x: Any) -> Any:
    return {"sum": jnp.cumsum(x, 1), "max": jax.lax.cummax(x, 1), "product": jnp.cumprod(x * 0.1 + 1, 0)}


def random_normal(x: Any) -> Any:
    key = jax.random.key(11)
    one, two = jax.random.split(key)
    return x + jax.random.normal(one, x.shape) + jax.random.uniform(two, x.shape)


def random_choice(logits: Any) -> Any:
    key = jax.random.fold_in(jax.random.key(5), 9)
    return {"sample": jax.random.categorical(key, logits), "permutation": jax.random.permutation(key, 40)}


def bit_mixing(x: Any) -> Any:
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x45D9F3B)
    return {"bits": bits, "ones": jax.lax.population_count(bits), "zeros": jax.lax.clz(bits), "rest": bits % 1000}


def segments(x: Any, ids: Any) -> Any:
    return {
        "sum": jax.ops.segment_sum(x, ids, 6),
        "max": jax.ops.segment_max(x, ids, 6),
        "gradient": jax.grad(lambda x: (jax.ops.segment_sum(x, ids, 6) ** 2).sum())(x),
    }


def rotation(x: Any) -> Any:
    z = jax.lax.complex(x, jnp.roll(x, 1)) * jnp.exp(1j * x)
    return {"real": z.real, "imaginary": z.imag, "length": jnp.abs(z), "product": (z @ z.conj().T).real}


def contractions(a: Any, b: Any, c: Any) -> Any:
    return {
        "outer": jnp.einsum("i,j->ij", a[0, 0], c[0]),
        "batched": jnp.einsum("bij,bjk->bik", a, b),
        "swapped": jnp.einsum("bij,bjk->kib", a, b),
        "traced": jnp.einsum("bii->b", a[:, :, : a.shape[1]]),
        "matvec": jnp.einsum("bij,j->ib", a, c[:, 0]),
        "all": jnp.einsum("bij,bjk,kl->l", a, b, c.T),
    }


def beams(logits: Any) -> Any:
    scores, ids = jax.lax.top_k(jax.nn.log_softmax(logits).reshape(-1), 5)
    return {"scores": scores, "beam": ids // logits.shape[1], "token": ids % logits.shape[1]}


def rearranged(x: Any, y: Any) -> Any:
    padded = jax.lax.pad(x, 0.5, ((1, 2, 1), (-1, 3, 0)))
    joined = jnp.concatenate([x, y[::-1], jnp.flip(x, 1)], 0)
    return {
        "padded": padded,
        "joined": joined,
        "tiled": jnp.tile(x, (2, 1)),
        "rolled": jnp.roll(joined, (2, 3), (0, 1)),
    }


def special_functions(x: Any) -> Any:
    y = jnp.abs(x) + 0.5
    return {
        "erf": jax.lax.erf(x), "erfinv": jax.lax.erf_inv(jnp.tanh(x) * 0.9), "log1p": jnp.log1p(y), "expm1": jnp.expm1(x),
        "logaddexp": jnp.logaddexp(x, y), "gelu": jax.nn.gelu(x), "power": y**x, "cbrt": jnp.cbrt(x),
        "atan2": jnp.arctan2(x, y), "softplus": jax.nn.softplus(x), "lgamma": jax.lax.lgamma(y), "sinh": jnp.sinh(x),
    }  # fmt: skip


def not_finite(x: Any) -> Any:
    y = jnp.where(x > 1, jnp.nan, x)
    return {"mean": jnp.nanmean(y), "filled": jnp.nan_to_num(y), "count": jnp.isnan(y).sum(), "most": jnp.nanmax(y)}


def gathered(x: Any, rows: Any) -> Any:
    return {
        "rows": x[rows],
        "pairs": x[rows, rows % x.shape[1]],
        "set": x.at[rows].set(1.0),
        "added": x.at[rows, 0].add(2.0),
        "along": jnp.take_along_axis(x[:4], rows[:, None] % x.shape[1], 1),
        "least": x.at[rows].min(0.0),
    }


CASES = (
    make_case("sorting", sorting, draw_normal(9, 33)),
    make_case("sort_pairs", sort_pairs, draw_ids(40, high=7), draw_normal(40, seed=2)),
    make_case("cumulative", cumulative, draw_normal(6, 40)),
    make_case("random_normal", random_normal, draw_normal(7, 13)),
    make_case("random_choice", random_choice, draw_normal(6, 11)),
    make_case("bit_mixing", bit_mixing, draw_normal(50)),
    make_case("segments", segments, draw_normal(30, 4), draw_ids(30, high=6)),
    make_case("rotation", rotation, draw_normal(6, 10)),
    make_case(
        "contractions", contractions, draw_normal(3, 4, 5), draw_normal(3, 5, 6, seed=1), draw_normal(5, 6, seed=2)
    ),
    make_case("beams", beams, draw_normal(4, 30)),
    make_case("rearranged", rearranged, draw_normal(4, 6), draw_normal(3, 6, seed=1)),
    make_case("special_functions", special_functions, draw_normal(64)),
    make_case("not_finite", not_finite, draw_normal(40)),
    make_case("gathered", gathered, draw_normal(10, 6), draw_ids(4, high=10)),
)
