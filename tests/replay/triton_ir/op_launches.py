"""Launches of `op_kernels`, each with edge values."""

from typing import Any

import numpy as np

from tests.replay.triton_ir.oracle import Launch

_random = np.random.default_rng(5)


def _floats(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Any:
    return (_random.standard_normal(shape) * scale).astype(dtype)


def _integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Any:
    return _random.integers(low, high, shape, dtype=dtype)


def _extremes(dtype: Any, size: int) -> Any:
    limits = np.iinfo(dtype)
    values = _random.integers(limits.min, limits.max, size, dtype=dtype, endpoint=True)
    values[:4] = limits.min, limits.max, 0, 1
    return values


def _whole(size: int, *, dtype: Any = np.float32) -> Any:
    """Integers whose sums of products are exact in f32: the order in which BLAS adds depends on the processor."""
    return _integers(-64, 65, size).astype(dtype)


def _zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def _make() -> dict[str, Launch]:  # noqa: PLR0915 - a list
    made: dict[str, Launch] = {}

    def add(
        kernel: str,
        label: str = "",
        grid: tuple[int, ...] = (1,),
        constants: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        name = f"{kernel}-{label}" if label else kernel
        whole = (*grid, 1, 1)[:3]
        made[name] = Launch(
            kernel=kernel, arguments=arguments, constants=constants or {}, grid=(whole[0], whole[1], whole[2])
        )

    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32):
        name = np.dtype(dtype).name
        x, y = _extremes(dtype, 96 * 1), _extremes(dtype, 96)[::-1].copy()
        add("integers", name, (3,), {"N": 32}, x=x, y=y, o=_zeros(10 * 96, dtype=dtype))
        if np.dtype(dtype).kind == "i":
            add("negations", name, constants={"N": 64}, x=_extremes(dtype, 64), o=_zeros(128, dtype=dtype))
        bits = 8 * np.dtype(dtype).itemsize
        shift = _random.integers(0, bits, 64).astype(dtype)
        add("shifts", name, constants={"N": 64}, x=_extremes(dtype, 64), y=shift, o=_zeros(128, dtype=dtype))
    for dtype in (np.int32, np.int64, np.uint32):
        x, y = _extremes(dtype, 64), _integers(1, 1000, 64).astype(dtype)
        add("divisions", np.dtype(dtype).name, constants={"N": 64}, x=x // dtype(4), y=y, o=_zeros(192, dtype=dtype))
    add(
        "high_product",
        constants={"N": 64},
        x=_extremes(np.uint32, 64),
        y=_extremes(np.uint32, 64),
        o=_zeros(64, dtype=np.uint32),
    )
    for dtype in (np.float16, np.float32, np.float64):
        name = np.dtype(dtype).name
        x, y = _floats(96, dtype=dtype), _floats(96, dtype=dtype)
        x[:6] = np.nan, np.inf, -np.inf, 0, -0.0, 1
        y[3:9] = np.nan, 2, 0, 1, np.inf, -0.0
        y[10:20] = x[10:20]
        add("floats", name, (3,), {"N": 32}, x=x, y=y, o=_zeros(8 * 96, dtype=dtype))
        add("clamps", name, constants={"N": 64}, x=_floats(64, dtype=dtype), o=_zeros(128, dtype=dtype))
    add("functions", constants={"N": 64}, x=_floats(64, scale=4), o=_zeros(14 * 64))
    add("error_function", constants={"N": 64}, x=_floats(64), o=_zeros(64))
    add(
        "casts",
        "down",
        constants={"N": 64},
        x=_floats(64, scale=100),
        o=_zeros(64, dtype=np.float16),
        p=_zeros(64, dtype=np.int32),
    )
    add(
        "casts",
        "up",
        constants={"N": 64},
        x=_integers(-128, 127, 64, dtype=np.int8),
        o=_zeros(64),
        p=_zeros(64, dtype=np.int64),
    )
    add(
        "casts", "unsigned", constants={"N": 64}, x=_extremes(np.uint32, 64), o=_zeros(64), p=_zeros(64, dtype=np.int64)
    )
    add("casts", "wide", constants={"N": 64}, x=_extremes(np.int64, 64), o=_zeros(64), p=_zeros(64, dtype=np.int16))
    add("bits", constants={"N": 64}, x=_floats(64), o=_zeros(64, dtype=np.int32))
    for dtype in (np.float32, np.float64, np.int32):
        x = _floats(3 * 8 * 16, dtype=np.float64, scale=50).astype(dtype)
        o, p = _zeros(3 * 8 * 24, dtype=dtype), _zeros(3 * 4 * 24, dtype=np.int32)
        add("reductions", np.dtype(dtype).name, (3,), {"M": 8, "N": 16}, x=x, o=o, p=p)
    add("xor_sums", constants={"M": 8, "N": 16}, x=_extremes(np.int32, 128), o=_zeros(32, dtype=np.int32))
    powers = np.exp2(_integers(-1, 2, 128)).astype(np.float32)
    add("own_reductions", constants={"M": 8, "N": 16}, x=powers, o=_zeros(8), p=_zeros(8))
    add("scans", "", (2,), {"M": 4, "N": 8}, x=_floats(64), o=_zeros(5 * 64))
    add("scans", "integers", (2,), {"M": 4, "N": 8}, x=_integers(-5, 5, 64), o=_zeros(5 * 64, dtype=np.int32))
    add("shapes", "", (3,), {"M": 4, "N": 8}, x=_floats(96), o=_zeros(6 * 96))
    add("catenated", constants={"N": 16}, x=_floats(16), o=_zeros(32))
    add("flips", constants={"N": 32}, x=_integers(0, 99, 32), o=_zeros(64, dtype=np.int32))
    add("gathers", constants={"M": 4, "N": 8}, x=_floats(32), y=_integers(0, 8, 32), o=_zeros(32))
    add("histograms", "", (3,), {"N": 64, "B": 16}, x=_integers(0, 16, 192), o=_zeros(48, dtype=np.int32))
    add("products", "", (3,), {"M": 16, "K": 32, "N": 16}, x=_whole(3 * 512), y=_whole(512), o=_zeros(3 * 256))
    add(
        "products",
        "f16",
        (3,),
        {"M": 16, "K": 32, "N": 16},
        x=_whole(1536, dtype=np.float16),
        y=_whole(512, dtype=np.float16),
        o=_zeros(768),
    )
    add(
        "products",
        "i8",
        (3,),
        {"M": 16, "K": 32, "N": 16},
        x=_extremes(np.int8, 1536),
        y=_extremes(np.int8, 512),
        o=_zeros(768, dtype=np.int32),
    )
    add(
        "tiles",
        "",
        (3, 2),
        {"M": 16, "K": 16, "N": 32},
        x=_floats(40 * 50),
        y=_floats(50 * 60),
        o=_zeros(40 * 60),
        m=40,
        n=60,
        k=50,
    )
    add("block_pointers", "", (3,), {"M": 8, "N": 16}, x=_floats(20 * 40), o=_zeros(20 * 40), m=20, n=40)
    add("nan_padding", constants={"M": 8, "N": 16}, x=_floats(5 * 11), o=_zeros(128), m=5, n=11)
    add("descriptors", "", (3, 3), {"M": 8, "N": 16}, x=_floats(20 * 40), o=_zeros(20 * 40), m=20, n=40)
    add(
        "atomics",
        "",
        (4,),
        {"N": 16},
        x=_integers(-99, 99, 64),
        o=_integers(-99, 99, 8 * 16),
        p=_zeros(64, dtype=np.int32),
    )
    add("float_atomics", "", (4,), {"N": 32}, x=_integers(-99, 99, 128).astype(np.float32), o=_zeros(9))
    add("last_program", "", (5,), {"N": 16}, x=_floats(80), count=_zeros(1, dtype=np.int32), o=_zeros(6))
    add("branches", "", (7,), {"N": 16}, x=_floats(7 * 16), o=_zeros(7 * 16 + 7))
    add("early_return", "", (9,), {"N": 4}, x=_floats(36), o=_zeros(36), n=7)
    add(
        "ragged_loops",
        "",
        (5,),
        {"N": 16},
        x=_floats(200),
        starts=np.array([0, 5, 5, 77, 78, 200], np.int32),
        o=_zeros(5),
    )
    add("while_loops", "", (9,), {"N": 1}, x=np.arange(1, 10, dtype=np.int32), o=_zeros(9, dtype=np.int32))
    add("swapped", "", (3,), x=_floats(24), y=_floats(24), n=7)
    add("calls", "", (5,), {"N": 1}, x=_floats(6), o=_zeros(5))
    add("chosen_pointer", "", (5,), {"N": 8}, x=_floats(40), y=_floats(40), o=_zeros(80))
    add("overlapping", "", (5,), {"N": 16}, x=_floats(80), o=_zeros(81))
    add("grids", "", (3, 4, 2), o=_zeros(24, dtype=np.int32))
    add("strided", "", (5,), {"N": 16}, x=_floats(5 * 16), o=_zeros(80), s=5, n=13)
    add("indirect", "", (8,), {"N": 16}, x=_floats(16 * 16), y=_integers(0, 16, 16), o=_zeros(256))
    add("random_numbers", "", (3,), {"N": 32}, o=_zeros(192), seed=1234)
    add("scalars", constants={"N": 16}, o=_zeros(16), a=3, b=2.5, c=np.float32(0.1).item())
    add(
        "truths",
        constants={"N": 16},
        x=_integers(-3, 9, 16),
        o=_zeros(16, dtype=np.bool_),
        p=_zeros(16, dtype=np.int32),
    )
    add("layer_norm", "", (5,), {"N": 64}, x=_floats(250), w=_floats(50), b=_floats(50), o=_zeros(250), n=50, eps=1e-5)
    for dtype in (np.int32, np.uint8):
        values = _integers(0, 99, 20 * 48).astype(dtype)
        name = np.dtype(dtype).name
        add("descriptors", name, (3, 3), {"M": 8, "N": 16}, x=values, o=np.zeros_like(values), m=20, n=48)
    return made


LAUNCHES = _make()
