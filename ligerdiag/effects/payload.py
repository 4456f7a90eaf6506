"""Parses the backend config of a custom call, which holds its kernel; jax-triton and Pallas write three kinds. In that of a
CuTe DSL call, only the names of the kernels can be read.

A *configuration* is one way in which the launcher may run a kernel, with its own block sizes and grid. An autotuned call
has several.

target                                     backend config
`triton_kernel_call` (jax-triton < 0.4)    `zlib.compress(TritonAnyKernelCall)`
`triton_kernel_call_ffi` (since 0.4)       attribute dictionary, the same bytes in its string `opaque`
`__gpu$xla.gpu.triton` (Pallas)            attribute dictionary, the kernel as MLIR bytecode in its string `ir`
"""

import json
import re
import zlib
from dataclasses import dataclass, replace
from typing import cast

from google.protobuf.message import DecodeError

from ligerdiag.effects import triton_call_pb2
from ligerdiag.errors import ArtifactError

_ENTRY = re.compile(
    rb'(?<![\w$.])(?P<key>[A-Za-z_][\w$.]*+)\s*+=\s*+"(?P<value>(?:[^"\\]|\\.)*+)"|"(?:[^"\\]|\\.)*+"',
    re.DOTALL | re.ASCII,
)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_INTEGERS = re.compile(
    rb"[{,]\s*+(?P<key>[A-Za-z_][\w$.]*+)\s*+=\s*+(?:(?P<one>-?\d{1,20})\s*+:"
    rb"|dense<(?P<list>-?\d{1,20}|\[[-\d, ]*+\])>\s*+:\s*+tensor<(?P<count>\d{1,9})x)",
    re.ASCII,
)
_MOST_INTEGERS = 10_000
"""The most elements of a tensor that is printed as one integer."""
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
# The escapes of MLIR's lexer: four characters have names, every other byte is two hexadecimal digits.
_NAMED = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def parse_string_attributes(backend_config: bytes) -> dict[str, bytes]:
    """Returns the string attributes of an attribute dictionary such as `{opaque = "x\\9C"}`, unescaped. Skips all other
    attributes.

    Also accepts XLA's GpuBackendConfig: JSON with such a dictionary in `custom_call_backend_config.attributes`. Raises
    ArtifactError if the backend config is neither.
    """
    attributes: dict[str, bytes] = {}
    for match in _ENTRY.finditer(_get_dictionary(backend_config)):
        key = match["key"]
        if key:
            attributes[key.decode("ascii")] = _ESCAPE.sub(_unescape, match["value"])
    return attributes


def parse_integer_attributes(backend_config: bytes) -> dict[str, tuple[int, ...]]:
    """Returns the attributes of an attribute dictionary that are integers or tensors of integers: `grid` and `ids` of
    `{grid = 4 : i32, ids = dense<[0, 1]> : tensor<2xi32>}`. Skips all other attributes, and large tensors, which MLIR prints
    in hexadecimal.

    Accepts the same backend configs as `parse_string_attributes`, and raises the same errors.
    """
    attributes: dict[str, tuple[int, ...]] = {}
    for match in _INTEGERS.finditer(_STRING.sub(b'""', _get_dictionary(backend_config))):
        values = tuple(int(value) for value in re.findall(rb"-?\d+", match["one"] or match["list"]))
        count = int(match["count"] or 1)
        is_splat = match["list"] is not None and not match["list"].startswith(b"[")
        if not is_splat and len(values) == count:
            attributes[match["key"].decode("ascii")] = values
        elif is_splat and len(values) == 1 and count <= _MOST_INTEGERS:
            attributes[match["key"].decode("ascii")] = values * count
    return attributes


def _get_dictionary(backend_config: bytes) -> bytes:
    """Returns the text of the attribute dictionary in a backend config; raises ArtifactError if there is none."""
    text = backend_config.strip()
    if text.startswith(b'{"'):
        text = _unwrap_json(text)
    if not (text.startswith(b"{") and text.endswith(b"}")):
        raise ArtifactError("the backend config is not an attribute dictionary")
    return text


def _unwrap_json(text: bytes) -> bytes:
    try:
        config = cast(object, json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ArtifactError("the backend config is neither JSON nor an attribute dictionary") from error
    for key in ("custom_call_backend_config", "attributes"):
        config = cast(dict[str, object], config).get(key) if isinstance(config, dict) else None
    if not isinstance(config, str):
        raise ArtifactError("the backend config lacks `custom_call_backend_config.attributes`")
    return config.encode("utf-8", "surrogatepass").strip()


def _unescape(match: re.Match[bytes]) -> bytes:
    digits = cast(bytes, match[1])
    if len(digits) == 2:
        return bytes.fromhex(digits.decode("ascii"))
    if digits not in _NAMED:
        raise ArtifactError("the backend config has an escape sequence that MLIR does not define")
    return _NAMED[digits]


PAYLOAD_LIMIT = 64 * 1024 * 1024
"""The most bytes that a payload may have when decompressed; a larger one is refused. Real ones have less than one
mebibyte per configuration.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter that a launch passes to a kernel."""

    is_buffer: bool
    """Whether the launch passes a buffer for the parameter, as a pointer or as a tensor descriptor. The buffers of the call
    are passed in order. False for a scalar.
    """
    bytes_to_zero: int = 0
    """How many bytes, from the start of the buffer, the launcher sets to zero before the kernel runs."""
    value: int | None = None
    """The value of a scalar that is an integer or a boolean; None for any other parameter."""
    number: int | float | None = None
    """The value of a scalar; None for a buffer."""
    is_descriptor: bool = False
    """Whether the buffer is passed as a tensor descriptor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfiguration:
    """One way in which the launcher may run a kernel; an autotuned call has several."""

    function: str
    mlir: bytes
    """The kernel's Triton IR before any of Triton's passes: MLIR text or bytecode; empty if there is only `ptx`."""
    parameters: tuple[Parameter, ...] | None
    """The parameters in the kernel's own order. None if the payload does not list them: every buffer is then a parameter.
    """
    grid: tuple[int, int, int]
    """Number of programs along each axis; -1 if unknown."""
    ptx: str = ""
    """The kernel's PTX if the payload has no IR; otherwise empty."""
    saved: tuple[tuple[int, int], ...] = ()
    """Pairs (input, output) of numbers of the call's buffers, operands before outputs. The autotuner's trial runs use the
    real buffers; afterwards it restores the input if both buffers of a pair have the same address.
    """


class NoIrError(ArtifactError):
    """Raised if a payload contains only a kernel's machine code and no IR, as some libraries serialize their kernels."""

    def __init__(self, kernel: str) -> None:
        super().__init__(
            f"the payload of `{kernel}` has no Triton IR; declare the kernel's writes under [tool.ligerdiag.effects]"
        )
        self.kernel = kernel


def parse_triton_call(backend_config: bytes) -> tuple[LaunchConfiguration, ...]:
    """Returns the configurations in the backend config of a `triton_kernel_call`; there is at least one. Raises
    ArtifactError if the backend config cannot be read.
    """
    try:
        call = triton_call_pb2.TritonAnyKernelCall.FromString(_decompress(backend_config))
    except DecodeError as error:
        raise ArtifactError("the payload is not a serialized TritonAnyKernelCall") from error
    match call.WhichOneof("value"):
        case "kernel_call":
            return (_read_kernel_call(call.kernel_call),)
        case "autotuned_kernel_call" if call.autotuned_kernel_call.configs:
            tuned = call.autotuned_kernel_call
            saved = tuple((one.input_buffer_idx, one.output_buffer_idx) for one in tuned.input_output_aliases)
            return tuple(replace(_read_kernel_call(config.kernel_call), saved=saved) for config in tuned.configs)
        case _:
            raise ArtifactError("the payload has no kernel call")


def parse_triton_ffi_call(backend_config: bytes) -> tuple[LaunchConfiguration, ...]:
    """Returns the configurations in the backend config of a `triton_kernel_call_ffi`; there is at least one. Raises
    ArtifactError if the backend config cannot be read.
    """
    opaque = parse_string_attributes(backend_config).get("opaque")
    if opaque is None:
        raise ArtifactError("the backend config has no string attribute `opaque`")
    return parse_triton_call(opaque)


def parse_pallas_call(backend_config: bytes) -> tuple[LaunchConfiguration, ...]:
    """Returns the single configuration in the backend config of a call of `__gpu$xla.gpu.triton`. Raises ArtifactError if
    the backend config cannot be read.
    """
    attributes = parse_string_attributes(backend_config)
    if "ir" not in attributes or "name" not in attributes:
        raise ArtifactError("the backend config lacks the string attributes `name` and `ir`")
    name = attributes["name"].decode("utf-8", "replace")
    sizes = tuple(_parse_grid_size(backend_config, axis) for axis in (b"grid_x", b"grid_y", b"grid_z"))
    grid = (sizes[0], sizes[1], sizes[2])
    return (LaunchConfiguration(function=name, mlir=attributes["ir"], parameters=None, grid=grid),)


def _parse_grid_size(backend_config: bytes, axis: bytes) -> int:
    match = re.search(rb"[{,]\s*" + axis + rb"\s*=\s*(\d{1,10})\s*:", backend_config)
    return int(match[1]) if match else -1


def _decompress(data: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        payload = decompressor.decompress(data, PAYLOAD_LIMIT)
    except zlib.error as error:
        raise ArtifactError("the payload is not zlib-compressed") from error
    if decompressor.unconsumed_tail:
        raise ArtifactError(f"the payload is larger than {PAYLOAD_LIMIT // 2**20} MiB when decompressed")
    if not decompressor.eof:
        raise ArtifactError("the payload is truncated")
    return payload


def _read_kernel_call(call: triton_call_pb2.TritonKernelCall) -> LaunchConfiguration:
    if not call.kernel.ttir and not call.kernel.ptx:
        raise NoIrError(call.kernel.kernel_name)
    return LaunchConfiguration(
        function=call.kernel.kernel_name,
        mlir=call.kernel.ttir.encode(),
        ptx="" if call.kernel.ttir else call.kernel.ptx,
        parameters=tuple(_read_parameter(parameter) for parameter in call.parameters),
        grid=(call.grid_0, call.grid_1, call.grid_2),
    )


def _read_parameter(parameter: triton_call_pb2.TritonKernelCall.Parameter) -> Parameter:
    match parameter.WhichOneof("value"):
        case "array":
            return Parameter(is_buffer=True, bytes_to_zero=parameter.array.bytes_to_zero)
        case "tensor_descriptor":
            return Parameter(is_buffer=True, is_descriptor=True)
        case None:
            raise ArtifactError("the payload has a parameter of an unknown kind")
        case "bool_" | "i32" | "u32" | "i64" | "u64" as kind:
            value = int(getattr(parameter, kind))
            return Parameter(is_buffer=False, value=value, number=value)
        case kind:
            return Parameter(is_buffer=False, number=float(getattr(parameter, kind)))


_LIST = re.compile(rb'\x00(\{"[\w$.]++": ?+\{[^{}\x00]*+\}(?:, ?+"[\w$.]++": ?+\{[^{}\x00]*+\})*+\})(?=\x00)', re.ASCII)
_SYMBOL = re.compile(rb'"([\w$.]++)": ?+\{', re.ASCII)
_MADE = re.compile(r"kernel_cutlass_(?P<name>\w+?)(?:_tensor\w*)?_\d+", re.ASCII)
"""A symbol that CuTe DSL made, with the name of the kernel's function before its first tensor."""
_MOST_SYMBOLS = 100


def find_cute_names(backend_config: bytes) -> str:
    """Returns the names of the kernels that a CuTe DSL call may launch, joined by `+`, so that a declaration can name them;
    empty if they are unknown.

    The string `module` of the backend config is an object file of the host. Its code passes the call's buffers to the
    kernels, whose machine code is among its data, beside a list of the kernels as a JSON object from their symbols. The
    symbol of a kernel is `kernel_cutlass_<name>_<arguments>_<number>` unless the user gave the kernel another symbol.
    """
    try:
        module = parse_string_attributes(backend_config).get("module", b"")
    except ArtifactError:
        return ""
    found = _LIST.search(module)
    symbols = [] if found is None else [symbol.decode("ascii") for symbol in _SYMBOL.findall(found[1])]
    if len(symbols) > _MOST_SYMBOLS:
        return ""
    return "+".join(dict.fromkeys(_shorten(symbol) for symbol in symbols))


def _shorten(symbol: str) -> str:
    made = _MADE.fullmatch(symbol)
    return made["name"] if made else symbol
