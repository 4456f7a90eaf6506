"""Strings out of the printed MLIR attribute dictionary that is a typed-FFI call's backend config."""

import json
import re
from typing import cast

from ligerdiag.errors import ArtifactError

_ENTRY = re.compile(
    rb'(?<![\w$.])(?P<key>[A-Za-z_][\w$.]*+)\s*+=\s*+"(?P<value>(?:[^"\\]|\\.)*+)"|"(?:[^"\\]|\\.)*+"',
    re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
# MLIR's lexer: these four by name, every other byte by two hexadecimal digits.
_NAMED = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def parse_string_attributes(backend_config: bytes) -> dict[str, bytes]:
    """Returns the string attributes of a dictionary such as `{opaque = "x\\9C"}`, unescaped; other kinds are skipped.

    Takes XLA's GpuBackendConfig (JSON, the dictionary in `custom_call_backend_config.attributes`), too. Raises
    ArtifactError where it is neither.
    """
    text = backend_config.strip()
    if text.startswith(b'{"'):
        text = _unwrap_json(text)
    if not (text.startswith(b"{") and text.endswith(b"}")):
        raise ArtifactError("the backend config is no attribute dictionary")
    attributes: dict[str, bytes] = {}
    for match in _ENTRY.finditer(text):
        key = match["key"]
        if key:
            attributes[key.decode("ascii")] = _ESCAPE.sub(_unescape, match["value"])
    return attributes


def _unwrap_json(text: bytes) -> bytes:
    try:
        config = cast(object, json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ArtifactError("the backend config is neither JSON nor an attribute dictionary") from error
    for key in ("custom_call_backend_config", "attributes"):
        config = cast(dict[str, object], config).get(key) if isinstance(config, dict) else None
    if not isinstance(config, str):
        raise ArtifactError("the backend config holds no `custom_call_backend_config.attributes`")
    return config.encode("utf-8", "surrogatepass").strip()


def _unescape(match: re.Match[bytes]) -> bytes:
    digits = cast(bytes, match[1])
    if len(digits) == 2:
        return bytes.fromhex(digits.decode("ascii"))
    if digits not in _NAMED:
        raise ArtifactError("the backend config holds an escape that MLIR does not have")
    return _NAMED[digits]
