"""Launches whose effects are known by running them: kernel, buffers, scalars, grid, and what the static analysis must find.

A finding is three letters for each buffer: reads before write (y, n), coverage (c complete, p partial, - none), neighbours
(s shared, d disjoint); `?` where the analysis says UNKNOWN. `interpreted` false: Triton's interpreter cannot run it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.effects import truth_kernels as k
from tests.effects import truth_tutorials as t

type Fill = Callable[[np.random.Generator, Mapping[str, np.ndarray]], Any]
"""What a buffer holds at first, from the buffers before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthCase:
    kernel: Any
    buffers: dict[str, tuple[str, int]]
    """Parameter to Triton's name of the element type, and elements."""
    expected: dict[str, str]
    scalars: dict[str, int | float] = field(default_factory=dict[str, int | float])
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    grid: tuple[int, int, int] = (1, 1, 1)
    fill: dict[str, Fill] = field(default_factory=dict[str, Fill])
    interpreted: bool = True


def below(limit: int) -> Fill:
    return lambda chance, _: chance.integers(0, limit, 4096)


def zeros(chance: np.random.Generator, _: Mapping[str, np.ndarray]) -> Any:
    return np.zeros(65536)


def shuffled(count: int) -> Fill:
    return lambda chance, _: chance.permutation(count)


def exactly(*values: int) -> Fill:
    return lambda _, __: np.array(values)


def addresses(name: str, *offsets: int) -> Fill:
    return lambda _, buffers: np.array([buffers[name].ctypes.data + 4 * offset for offset in offsets])


F, H, I, L, B = "fp32", "fp16", "i32", "i64", "i8"
ATTENTION: dict[str, Any] = {"scalars": {"length": 64, "scale": 0.25}, "grid": (4, 2, 1)}
HEADS = (F, 2 * 64 * 16)
READ, MADE = "y-d", "ncd"

CASES: dict[str, TruthCase] = {
    # The tutorials.
    "vector add": TruthCase(
        kernel=t.vector_add,
        buffers={"x": (F, 1000), "y": (F, 1000), "o": (F, 1000)},
        scalars={"n": 1000},
        constants={"BLOCK": 256},
        grid=(4, 1, 1),
        expected={"x": READ, "y": READ, "o": MADE},
    ),
    "vector add in place": TruthCase(
        kernel=k.updates_weights,
        buffers={"w": (F, 1000), "m": (F, 1000), "gradient": (F, 1000)},
        scalars={"n": 1000, "rate": 0.5},
        constants={"BLOCK": 256},
        grid=(4, 1, 1),
        expected={"w": "ycd", "m": "ycd", "gradient": READ},
    ),
    "fused softmax": TruthCase(
        kernel=t.fused_softmax,
        buffers={"o": (F, 7 * 100), "x": (F, 7 * 100)},
        scalars={"rows": 7, "columns": 100},
        constants={"BLOCK": 128},
        grid=(3, 1, 1),
        expected={"o": MADE, "x": READ},
    ),
    "matmul": TruthCase(
        kernel=t.matmul,
        buffers={"a": (F, 40 * 48), "b": (F, 48 * 56), "c": (F, 40 * 56)},
        scalars={"M": 40, "N": 56, "K": 48},
        constants={"BM": 16, "BN": 16, "BK": 32, "GROUP": 2},
        grid=(12, 1, 1),
        expected={"a": READ, "b": READ, "c": MADE},
    ),
    "dropout": TruthCase(
        kernel=t.dropout,
        buffers={"x": (F, 100), "keep": (I, 100), "o": (F, 100)},
        scalars={"n": 100, "p": 0.5},
        constants={"BLOCK": 64},
        grid=(2, 1, 1),
        expected={"x": READ, "keep": READ, "o": MADE},
    ),
    "seeded dropout": TruthCase(
        kernel=t.seeded_dropout,
        buffers={"x": (F, 100), "o": (F, 100)},
        scalars={"n": 100, "p": 0.5, "seed": 123},
        constants={"BLOCK": 64},
        grid=(2, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "layer norm": TruthCase(
        kernel=t.layer_norm,
        buffers={"x": (F, 500), "o": (F, 500), "w": (F, 100), "b": (F, 100), "mean": (F, 5), "rstd": (F, 5)},
        scalars={"columns": 100, "eps": 1e-5},
        constants={"BLOCK": 32},
        grid=(5, 1, 1),
        expected={"x": READ, "o": MADE, "w": READ, "b": READ, "mean": MADE, "rstd": MADE},
    ),
    "layer norm, input gradient under locks": TruthCase(
        kernel=t.layer_norm_input_gradient,
        buffers={
            "dx": (F, 500),
            "dy": (F, 500),
            "dw": (F, 200),
            "db": (F, 200),
            "x": (F, 500),
            "w": (F, 100),
            "mean": (F, 5),
            "rstd": (F, 5),
            "locks": (I, 4),
        },
        scalars={"columns": 100},
        constants={"GROUPS": 2, "BLOCK": 128},
        grid=(5, 1, 1),
        fill={"locks": zeros},
        expected={
            "dx": MADE,
            "dy": READ,
            "dw": "?cs",
            "db": "?cs",
            "x": READ,
            "w": READ,
            "mean": READ,
            "rstd": READ,
            "locks": "y?s",
        },
    ),
    "layer norm, weight gradient": TruthCase(
        kernel=t.layer_norm_weight_gradient,
        buffers={"dw": (F, 300), "db": (F, 300), "out_w": (F, 100), "out_b": (F, 100)},
        scalars={"rows": 3, "columns": 100},
        constants={"BM": 2, "BN": 64},
        grid=(2, 1, 1),
        expected={"dw": READ, "db": READ, "out_w": MADE, "out_b": MADE},
    ),
    "attention": TruthCase(
        kernel=t.attention,
        buffers={"q": HEADS, "k": HEADS, "v": HEADS, "o": HEADS, "sums": (F, 128)},
        constants={"D": 16, "BM": 16, "BN": 16, "CAUSAL": False},
        expected={"q": READ, "k": READ, "v": READ, "o": MADE, "sums": MADE},
        **ATTENTION,
    ),
    "causal attention": TruthCase(
        kernel=t.attention,
        buffers={"q": HEADS, "k": HEADS, "v": HEADS, "o": HEADS, "sums": (F, 128)},
        constants={"D": 16, "BM": 16, "BN": 16, "CAUSAL": True},
        expected={"q": READ, "k": READ, "v": READ, "o": MADE, "sums": MADE},
        **ATTENTION,
    ),
    "attention by descriptors": TruthCase(
        kernel=t.attention_by_descriptor,
        buffers={"q": HEADS, "k": HEADS, "v": HEADS, "o": HEADS},
        scalars={"heads": 2, "length": 64, "scale": 0.25},
        constants={"D": 16, "BM": 16, "BN": 16},
        grid=(4, 2, 1),
        expected={"q": READ, "k": READ, "v": READ, "o": MADE},
    ),
    "attention, prepare backward": TruthCase(
        kernel=t.attention_prepare,
        buffers={"o": HEADS, "do": HEADS, "delta": (F, 128)},
        scalars={"length": 64},
        constants={"D": 16, "BM": 16},
        grid=(4, 2, 1),
        expected={"o": READ, "do": READ, "delta": MADE},
    ),
    "attention, key and value gradients": TruthCase(
        kernel=t.attention_key_gradient,
        buffers={
            **dict.fromkeys(("q", "k", "v", "do"), HEADS),
            "sums": (F, 128),
            "delta": (F, 128),
            "dk": HEADS,
            "dv": HEADS,
        },
        constants={"D": 16, "B": 16},
        expected={
            **dict.fromkeys(("q", "k", "v", "do", "sums", "delta"), READ),
            "dk": MADE,
            "dv": MADE,
        },
        **ATTENTION,
    ),
    "attention, query gradient": TruthCase(
        kernel=t.attention_query_gradient,
        buffers={**dict.fromkeys(("q", "k", "v", "do"), HEADS), "sums": (F, 128), "delta": (F, 128), "dq": HEADS},
        constants={"D": 16, "B": 16},
        expected={**dict.fromkeys(("q", "k", "v", "do", "sums", "delta"), READ), "dq": MADE},
        **ATTENTION,
    ),
    "libdevice": TruthCase(
        kernel=t.arcsine,
        buffers={"x": (F, 100), "o": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 64},
        grid=(2, 1, 1),
        interpreted=False,
        expected={"x": READ, "o": MADE},
    ),
    "grouped gemm by tables of pointers": TruthCase(
        kernel=t.grouped_gemm,
        buffers={
            "a": (F, 2 * 32 * 16),
            "b": (F, 2 * 16 * 16),
            "c": (F, 2 * 32 * 16),
            "a_table": (L, 2),
            "b_table": (L, 2),
            "c_table": (L, 2),
            "sizes": (I, 6),
        },
        scalars={"groups": 2},
        constants={"PROGRAMS": 3, "B": 16},
        grid=(3, 1, 1),
        fill={
            "a_table": addresses("a", 0, 512),
            "b_table": addresses("b", 0, 256),
            "c_table": addresses("c", 0, 512),
            "sizes": exactly(32, 16, 16, 32, 16, 16),
        },
        expected=dict.fromkeys(("a_table", "b_table", "c_table", "sizes"), "???"),
    ),
    "grouped gemm of packed rows": TruthCase(
        kernel=t.grouped_gemm_packed,
        buffers={"a": (F, 64 * 32), "b": (F, 3 * 32 * 16), "c": (F, 64 * 16), "starts": (I, 3)},
        scalars={"groups": 3, "N": 16, "K": 32},
        constants={"B": 16},
        grid=(4, 1, 1),
        fill={"starts": exactly(0, 16, 48)},
        expected={"a": READ, "b": "?-d", "c": MADE, "starts": READ},
    ),
    "persistent matmul": TruthCase(
        kernel=t.persistent_matmul,
        buffers={"a": (F, 40 * 32), "b": (F, 32 * 56), "c": (F, 40 * 56)},
        scalars={"M": 40, "N": 56, "K": 32},
        constants={"PROGRAMS": 5, "B": 16, "GROUP": 2},
        grid=(5, 1, 1),
        expected={"a": READ, "b": READ, "c": MADE},
    ),
    "persistent matmul by descriptors": TruthCase(
        kernel=t.persistent_descriptor_matmul,
        buffers={"a": (F, 40 * 32), "b": (F, 56 * 32), "c": (F, 40 * 56)},
        scalars={"M": 40, "N": 56, "K": 32},
        constants={"PROGRAMS": 5, "B": 16},
        grid=(5, 1, 1),
        expected={"a": READ, "b": READ, "c": MADE},
    ),
    "block-scaled matmul": TruthCase(
        kernel=t.block_scaled_matmul,
        buffers={
            "a": ("fp8e4nv", 128 * 128),
            "a_scale": ("u8", 128 * 4),
            "b": ("fp8e4nv", 128 * 128),
            "b_scale": ("u8", 128 * 4),
            "c": (F, 128 * 128),
        },
        scalars={"N": 128, "K": 128},
        constants={"BM": 128, "BN": 64, "BK": 64},
        grid=(1, 2, 1),
        interpreted=False,
        expected={"a": READ, "a_scale": READ, "b": READ, "b_scale": READ, "c": MADE},
    ),
    # Kernels of training libraries.
    "cross entropy in place": TruthCase(
        kernel=k.cross_entropy_in_place,
        buffers={"x": (F, 6 * 50), "target": (I, 6), "loss": (F, 6)},
        scalars={"columns": 50, "ignored": 3},
        constants={"BLOCK": 16},
        grid=(6, 1, 1),
        fill={"target": below(5)},
        expected={"x": "?c?", "target": READ, "loss": MADE},
    ),
    "cross entropy that forgets the ignored": TruthCase(
        kernel=k.cross_entropy_forgets_ignored,
        buffers={"x": (F, 6 * 50), "target": (I, 6), "loss": (F, 6)},
        scalars={"columns": 50, "ignored": 0},
        constants={"BLOCK": 64},
        grid=(6, 1, 1),
        fill={"target": below(2)},
        expected={"x": "?-d", "target": READ, "loss": "n?d"},
    ),
    "rms norm": TruthCase(
        kernel=k.rms_norm,
        buffers={"x": (F, 500), "o": (F, 500), "w": (F, 100), "rstd": (F, 5)},
        scalars={"columns": 100, "eps": 1e-5},
        constants={"BLOCK": 128},
        grid=(5, 1, 1),
        expected={"x": READ, "o": MADE, "w": READ, "rstd": MADE},
    ),
    "rms norm, gradient in place": TruthCase(
        kernel=k.rms_norm_gradient_in_place,
        buffers={"dy": (F, 700), "x": (F, 700), "w": (F, 100), "rstd": (F, 7), "dw": (F, 300)},
        scalars={"rows": 7, "columns": 100},
        constants={"EACH": 3, "BLOCK": 128},
        grid=(3, 1, 1),
        expected={"dy": "ycd", "x": READ, "w": READ, "rstd": READ, "dw": MADE},
    ),
    "swiglu": TruthCase(
        kernel=k.swiglu,
        buffers={"a": (F, 300), "b": (F, 300), "o": (F, 300)},
        scalars={"columns": 100},
        constants={"BLOCK": 128},
        grid=(3, 1, 1),
        expected={"a": READ, "b": READ, "o": MADE},
    ),
    "swiglu, gradient in place": TruthCase(
        kernel=k.swiglu_gradient_in_place,
        buffers={"dc": (F, 300), "a": (F, 300), "b": (F, 300)},
        scalars={"columns": 100},
        constants={"BLOCK": 128},
        grid=(3, 1, 1),
        expected={"dc": READ, "a": "ycd", "b": "ycd"},
    ),
    "rope in place": TruthCase(
        kernel=k.rope_in_place,
        buffers={"q": (F, 5 * 3 * 16), "cos": (F, 40), "sin": (F, 40)},
        scalars={"heads": 3},
        constants={"D": 16},
        grid=(5, 1, 1),
        expected={"q": "ycd", "cos": READ, "sin": READ},
    ),
    "weights and moments": TruthCase(
        kernel=k.updates_weights,
        buffers={"w": (H, 100), "m": (H, 100), "gradient": (H, 100)},
        scalars={"n": 90, "rate": 0.5},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"w": "ypd", "m": "ypd", "gradient": READ},
    ),
    "embedding": TruthCase(
        kernel=k.embedding,
        buffers={"w": (F, 200), "tokens": (I, 6), "o": (F, 120)},
        scalars={"columns": 20},
        constants={"BLOCK": 32},
        grid=(6, 1, 1),
        fill={"tokens": below(10)},
        expected={"w": "?-d", "tokens": READ, "o": MADE},
    ),
    "embedding, gradient": TruthCase(
        kernel=k.embedding_gradient,
        buffers={"dw": (F, 200), "tokens": (I, 6), "dy": (F, 120)},
        scalars={"columns": 20},
        constants={"BLOCK": 32},
        grid=(6, 1, 1),
        fill={"tokens": below(10)},
        expected={"dw": "???", "tokens": READ, "dy": READ},
    ),
    "quantise": TruthCase(
        kernel=k.quantise,
        buffers={"x": (F, 100), "o": (B, 100), "scales": (F, 5)},
        scalars={"columns": 20},
        constants={"BLOCK": 32},
        grid=(5, 1, 1),
        expected={"x": READ, "o": MADE, "scales": MADE},
    ),
    "split-k matmul": TruthCase(
        kernel=k.split_k_matmul,
        buffers={"a": (F, 32 * 64), "b": (F, 64 * 16), "c": (F, 32 * 16)},
        scalars={"M": 32, "N": 16, "K": 64},
        constants={"B": 16, "SPLITS": 2},
        grid=(2, 1, 2),
        expected={"a": READ, "b": READ, "c": "ycs"},
    ),
    "convolution": TruthCase(
        kernel=k.convolution,
        buffers={"x": (F, 102), "w": (F, 3), "o": (F, 100)},
        scalars={"n": 100},
        constants={"TAPS": 3, "BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "w": READ, "o": MADE},
    ),
    # One way of sharing, leaving out or reading back each.
    "transpose": TruthCase(
        kernel=k.transpose,
        buffers={"x": (F, 20 * 36), "o": (F, 20 * 36)},
        scalars={"M": 20, "N": 36},
        constants={"B": 16},
        grid=(2, 3, 1),
        expected={"x": READ, "o": MADE},
    ),
    "transpose by trans": TruthCase(
        kernel=k.transpose_by_trans,
        buffers={"x": (F, 256), "o": (F, 256)},
        scalars={"N": 16},
        constants={"B": 16},
        expected={"x": READ, "o": MADE},
    ),
    "transpose in place": TruthCase(
        kernel=k.transpose_in_place,
        buffers={"x": (F, 32 * 32)},
        scalars={"N": 32},
        constants={"B": 16},
        grid=(2, 2, 1),
        expected={"x": "ycs"},
    ),
    "rows reversed in place": TruthCase(
        kernel=k.reverse_rows_in_place,
        buffers={"x": (F, 8 * 32)},
        constants={"ROWS": 8, "COLUMNS": 32},
        grid=(8, 1, 1),
        expected={"x": "ycs"},
    ),
    "half of the rows": TruthCase(
        kernel=k.copy_rows,
        buffers={"x": (F, 8 * 32), "o": (F, 8 * 32)},
        constants={"COLUMNS": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "o": "npd"},
    ),
    "rows to places that data says": TruthCase(
        kernel=k.scatter_rows,
        buffers={"x": (F, 120), "places": (I, 6), "o": (F, 120)},
        scalars={"columns": 20},
        constants={"BLOCK": 32},
        grid=(6, 1, 1),
        fill={"places": shuffled(6)},
        expected={"x": READ, "places": READ, "o": "n??"},
    ),
    "histogram": TruthCase(
        kernel=k.count,
        buffers={"x": (I, 100), "o": (I, 8)},
        scalars={"n": 100},
        constants={"BLOCK": 64},
        grid=(2, 1, 1),
        fill={"x": below(6)},
        expected={"x": READ, "o": "???"},
    ),
    "sum of all": TruthCase(
        kernel=k.sum_all,
        buffers={"x": (F, 100), "o": (F, 1)},
        scalars={"n": 100},
        constants={"BLOCK": 64},
        grid=(2, 1, 1),
        expected={"x": READ, "o": "ycs"},
    ),
    "maximum of columns": TruthCase(
        kernel=k.maximum_of_columns,
        buffers={"x": (I, 100), "o": (I, 20)},
        scalars={"columns": 20},
        constants={"BLOCK": 32},
        grid=(5, 1, 1),
        expected={"x": READ, "o": "ycs"},
    ),
    "running sum": TruthCase(
        kernel=k.running_sum,
        buffers={"x": (F, 150), "o": (F, 150)},
        scalars={"columns": 50},
        constants={"BLOCK": 16},
        grid=(3, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "neighbours' elements": TruthCase(
        kernel=k.smooth,
        buffers={"x": (F, 100), "o": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "neighbours' elements in place": TruthCase(
        kernel=k.smooth_in_place,
        buffers={"x": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": "ycs"},
    ),
    "rows of lengths that data says": TruthCase(
        kernel=k.jagged_scale,
        buffers={"x": (F, 200), "lengths": (I, 4), "o": (F, 200)},
        scalars={"columns": 50},
        constants={"BLOCK": 16},
        grid=(4, 1, 1),
        fill={"lengths": below(50)},
        expected={"x": "?-d", "lengths": READ, "o": "n??"},
    ),
    "programs that return early": TruthCase(
        kernel=k.returns_early,
        buffers={"x": (F, 96), "o": (F, 96)},
        scalars={"rows": 3},
        constants={"COLUMNS": 32},
        grid=(5, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "a while loop": TruthCase(
        kernel=k.copies_in_while,
        buffers={"x": (F, 200), "o": (F, 200)},
        scalars={"n": 200},
        constants={"BLOCK": 16},
        grid=(3, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "block pointers": TruthCase(
        kernel=k.copies_block,
        buffers={"x": (F, 40 * 20), "o": (F, 40 * 20)},
        scalars={"M": 40, "N": 20},
        constants={"B": 16},
        grid=(3, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "rows gathered and scattered": TruthCase(
        kernel=k.scatters_by_descriptor,
        buffers={"x": (F, 16 * 32), "o": (F, 16 * 32)},
        scalars={"rows": 16},
        constants={"COLUMNS": 32},
        grid=(2, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "columns in turn": TruthCase(
        kernel=k.interleaves_columns,
        buffers={"x": (F, 130), "o": (F, 130)},
        scalars={"rows": 10, "columns": 13},
        constants={"PROGRAMS": 4, "BLOCK": 16},
        grid=(4, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "scratch read back": TruthCase(
        kernel=k.reads_back_scratch,
        buffers={"x": (F, 100), "scratch": (F, 100), "o": (F, 100)},
        scalars={"columns": 25},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "scratch": MADE, "o": MADE},
    ),
    "scratch read back, and more": TruthCase(
        kernel=k.reads_back_too_much,
        buffers={"x": (F, 128), "scratch": (F, 128), "o": (F, 128)},
        scalars={"columns": 25},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "scratch": "ypd", "o": MADE},
    ),
    "scratch read back where data says": TruthCase(
        kernel=k.reads_back_what_data_says,
        buffers={"x": (F, 128), "scratch": (F, 128), "o": (F, 128)},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "scratch": "??d", "o": MADE},
    ),
    "normalised twice": TruthCase(
        kernel=k.normalises_twice,
        buffers={"x": (F, 100)},
        scalars={"columns": 25},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": "ycd"},
    ),
    "lower triangle": TruthCase(
        kernel=k.lower_triangle,
        buffers={"x": (F, 400), "o": (F, 400)},
        scalars={"N": 20},
        constants={"B": 32},
        grid=(20, 1, 1),
        expected={"x": READ, "o": "npd"},
    ),
    "where positive": TruthCase(
        kernel=k.stores_where_positive,
        buffers={"x": (F, 100), "o": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "o": "n?d"},
    ),
    "one way or the other": TruthCase(
        kernel=k.stores_either_way,
        buffers={"x": (F, 100), "o": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "a cube": TruthCase(
        kernel=k.copies_cube,
        buffers={"x": (F, 3 * 4 * 50), "o": (F, 3 * 4 * 50)},
        scalars={"A": 3, "B": 4, "C": 50},
        constants={"BLOCK": 32},
        grid=(2, 4, 3),
        expected={"x": READ, "o": MADE},
    ),
    "one output or the other": TruthCase(
        kernel=k.chooses_output,
        buffers={"x": (F, 16), "o": (F, 16), "p": (F, 16)},
        scalars={"n": 16},
        constants={"BLOCK": 16},
        grid=(2, 1, 1),
        expected={"x": READ, "o": "n??", "p": "n??"},
    ),
    "windows that overlap": TruthCase(
        kernel=k.overlapping_windows,
        buffers={"o": (F, 80)},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"o": "ncs"},
    ),
    "split and joined": TruthCase(
        kernel=k.split_and_join,
        buffers={"x": (F, 64), "o": (F, 64)},
        constants={"BLOCK": 32},
        grid=(2, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "stored in a function": TruthCase(
        kernel=k.stores_in_function,
        buffers={"x": (F, 100), "o": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
    "pure assembly": TruthCase(
        kernel=k.assembly,
        buffers={"x": (I, 16), "o": (I, 16)},
        interpreted=False,
        expected={"x": READ, "o": MADE},
    ),
    "tickets": TruthCase(
        kernel=k.takes_a_ticket,
        buffers={"tickets": (I, 1), "o": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        fill={"tickets": zeros},
        expected={"tickets": "ycs", "o": "n??"},
    ),
    "only one program writes": TruthCase(
        kernel=k.only_one_program_writes,
        buffers={"x": (F, 100), "o": (F, 100)},
        scalars={"n": 100},
        constants={"BLOCK": 32},
        grid=(4, 1, 1),
        expected={"x": READ, "o": MADE},
    ),
}


def make_sweep(seed: int = 5) -> dict[str, TruthCase]:
    """Launches of kernels without data in their addresses, of every size and grid: too large, too small, just right."""
    chance = np.random.default_rng(seed)
    pick = lambda *values: int(chance.choice(values))  # noqa: E731
    made: dict[str, TruthCase] = {}
    for number in range(12):
        n, extra, block, programs = pick(1, 7, 64, 65, 100), pick(0, 0, 3), pick(16, 32), pick(1, 2, 3, 4, 7)
        rows, columns = pick(1, 3, 6), pick(1, 16, 20)
        flat = {"x": (F, n + extra), "o": (F, n + extra)}
        table = {"x": (F, rows * columns + extra), "o": (F, rows * columns + extra)}
        chosen: list[TruthCase] = [
            TruthCase(
                kernel=kernel,
                buffers=buffers,
                scalars=scalars,
                constants=constants,
                grid=grid,
                expected={},
            )
            for kernel, buffers, scalars, constants, grid in (
                (k.copies_in_while, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.smooth, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.smooth_in_place, {"x": flat["x"]}, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.only_one_program_writes, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.stores_in_function, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.running_sum, table, {"columns": columns}, {"BLOCK": 16}, (pick(*range(1, rows + 1)), 1, 1)),
                (
                    k.interleaves_columns,
                    table,
                    {"rows": rows, "columns": columns},
                    {"PROGRAMS": pick(1, 3, 5), "BLOCK": 8},
                    (programs, 1, 1),
                ),
                (
                    k.transpose,
                    table,
                    {"M": rows, "N": columns},
                    {"B": 8},
                    (pick(1, 1, 2), pick(1, 2, 3), 1),
                ),
                (k.copies_block, table, {"M": rows, "N": columns}, {"B": 4}, (pick(1, 2, 3), 1, 1)),
                (
                    t.persistent_matmul,
                    {"a": (F, rows * 8 + 8), "b": (F, 8 * columns + 8), "c": (F, (rows + 1) * (columns + 1) + extra)},
                    {"M": rows + 1, "N": columns + 1, "K": 8},
                    {"PROGRAMS": pick(1, 2, 4), "B": 16, "GROUP": pick(1, 2)},
                    (programs, 1, 1),
                ),
                (
                    k.lower_triangle,
                    {"x": (F, columns * columns), "o": (F, columns * columns)},
                    {"N": columns},
                    {"B": 32},
                    (pick(*range(1, columns + 1)), 1, 1),
                ),
            )
        ]
        made |= {f"{case.kernel.__name__} {number}": case for case in chosen}
    return made


SWEEP = make_sweep()
