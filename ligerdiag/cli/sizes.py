"""Sizes as people write them: `500M`, `4G`."""

import re

import typer

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of `500M`, `4G`, `1.5GiB` or `1048576`; units are powers of 1024. Raises typer.BadParameter."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if not size:
        raise typer.BadParameter(f"expected a size such as 500M or 4G but got `{text}`")
    return size
