"""Gives typed access to Triton's MLIR bindings, and parses from printed Triton IR the facts that the bindings do not
expose.

Importing this module imports Triton. Operations and values are handles into an MLIR module, which must be kept alive
while they are used.

Triton's bindings give neither integer attributes nor the successors of branches. MLIR prints one operation per line,
and operations without regions are printed in the order in which the bindings walk them, so each can be matched with its
line. If the text does not match, no operation has a line, and results that need one are unknown.
"""

import importlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from ligerdiag.errors import ArtifactError
from ligerdiag.missing_packages import describe_missing, is_missing


class Type(Protocol):
    """Triton's binding of `mlir::Type`; `str` prints the type."""


class Value(Protocol):
    """Triton's binding of `mlir::Value`."""

    def id(self) -> int: ...
    def get_type(self) -> Type: ...


class MlirRegion(Protocol):
    """Triton's binding of `mlir::Region`."""

    def id(self) -> int: ...
    def size(self) -> int: ...


class MlirBlock(Protocol):
    """Triton's binding of `mlir::Block`."""

    def id(self) -> int: ...
    def get_parent(self) -> MlirRegion: ...
    def get_num_arguments(self) -> int: ...
    def get_argument(self, index: int, /) -> Value: ...


class MlirOperation(Protocol):
    """Triton's binding of `mlir::Operation`. It does not show the successors of a branch."""

    def get_name(self) -> str: ...
    def get_num_operands(self) -> int: ...
    def get_operand(self, index: int, /) -> Value: ...
    def get_num_results(self) -> int: ...
    def get_result(self, index: int, /) -> Value: ...
    def get_num_regions(self) -> int: ...
    def get_region(self, index: int, /) -> MlirRegion: ...
    def get_block(self) -> MlirBlock: ...
    def get_bool_attr(self, name: str, /) -> bool | None: ...
    def get_str_attr(self, name: str, /) -> str | None: ...
    def get_flat_symbol_ref_attr(self, name: str, /) -> str | None: ...


class Module(Protocol):
    """Triton's binding of `mlir::ModuleOp`."""

    def walk(self, visit: Callable[[MlirOperation], None], /) -> None: ...
    def str_nodebug(self) -> str: ...
    def str(self) -> str: ...


class _Context(Protocol):
    """Triton's binding of `mlir::MLIRContext`."""


class _Ir(Protocol):
    def context(self) -> _Context: ...
    def load_dialects(self, context: _Context, /) -> None: ...
    def parse_mlir_module(self, path: str, context: _Context, /) -> Module: ...


class _Backend(Protocol):
    def load_dialects(self, context: _Context, /) -> None: ...


_LOCATION = re.compile(r" loc\((?:#loc\d*|unknown)\)$", re.MULTILINE)

_BACKENDS = ("nvidia", "amd")
"""Submodules of Triton's bindings that load the dialects of one vendor's GPUs; a build of Triton may lack one."""


_BYTECODE = b"ML\xefR"


def print_module(module: Module) -> str:
    """Returns the text of a module without locations.

    Triton before about 3.5 cannot print without locations; they are then removed from the text.
    """
    printer = getattr(module, "str_nodebug", None)
    return module.str_nodebug() if printer is not None else _LOCATION.sub("", module.str())


def parse_module(source: bytes) -> tuple[Module, _Context]:
    """Parses and verifies an MLIR module, given as text or bytecode. Returns the module and its context, which must outlive
    it.

    Triton may refuse bytecode that jaxlib wrote (of a Pallas kernel), because their versions of the dialects differ. jaxlib
    then converts it to text, which Triton parses. Raises ArtifactError if Triton refuses the text too. Hostile input can
    kill the process: see `isolated`.
    """
    try:
        return _parse(source)
    except ArtifactError:
        text = _render_by_jaxlib(source) if source.startswith(_BYTECODE) else b""
        if not text and source.startswith(_BYTECODE) and is_missing("jaxlib"):
            raise ArtifactError(
                describe_missing("the kernel's bytecode, which this Triton refuses,", "jaxlib")
            ) from None
        if not text:
            raise
        return _parse(text)


def _render_by_jaxlib(bytecode: bytes) -> bytes:
    """Returns the text of a module given as bytecode; empty if jaxlib refuses it."""
    try:
        ir: Any = importlib.import_module("jaxlib.mlir.ir")
        dialect: Any = importlib.import_module("jaxlib.triton.dialect")
        context = ir.Context()
        dialect.register_dialect(context)
        with context:
            return str(ir.Module.parse(bytecode).operation.get_asm()).encode()
    except Exception:  # MLIR's own exceptions have no common base
        return b""


NOT_UNDERSTOOD = "is not understood by triton"
"""Text in the reason for a kernel's unknown effects if Triton could not read its IR at all."""
_OLDER = re.compile(rb"(\btt\.reshape %[\w#]+) \{allow_reorder = (?:(true)|false)\}")
"""Matches an attribute's value that Triton up to 3.1 prints and later versions do not; every sum of a whole block has
such an attribute.
"""


def _parse(source: bytes) -> tuple[Module, _Context]:
    """Parses a module; if Triton refuses it, replaces the syntax of older versions and tries again."""
    try:
        return _parse_unchanged(source)
    except ArtifactError:
        newer = _OLDER.sub(lambda found: found[1] + (b" allow_reorder" if found[2] else b""), source)
        if newer == source:
            raise
        return _parse_unchanged(newer)


def _parse_unchanged(source: bytes) -> tuple[Module, _Context]:
    library = importlib.import_module("triton._C.libtriton")
    ir = cast(_Ir, library.ir)
    context = ir.context()
    ir.load_dialects(context)
    for name in _BACKENDS:
        backend = cast(_Backend | None, getattr(library, name, None))
        if backend is not None:
            backend.load_dialects(context)
    descriptor = os.memfd_create("ttir")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(source)
        return ir.parse_mlir_module(f"/proc/self/fd/{descriptor}", context), context
    except RuntimeError as error:
        version = importlib.import_module("triton").__version__
        raise ArtifactError(f"the kernel's MLIR {NOT_UNDERSTOOD} {version}") from error
    finally:
        os.close(descriptor)


_OPERATION = re.compile(r'\s*(?:%[^"=]*=\s)?"?([a-z_]\w*\.[\w.]+)"?', re.ASCII)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*?)(?:, [#@].*)?>\Z", re.DOTALL)
_SIZES = re.compile(r"tensor<((?:\d+x)*)|tensordesc<((?:\d+x)+)")
"""Matches the sizes in a type. Up to about Triton 3.8 a descriptor's type contains a tensor type, since then only
sizes.
"""
_WIDTHS = {"f64": 8, "f32": 4, "tf32": 4, "bf16": 2, "f16": 2, "index": 8}
_INTEGER = re.compile(r"[su]?i(\d{1,3})\Z", re.ASCII)


def align_lines(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the printed line of each operation that has no regions. Returns () if the text does not match `names`.

    text: the printed module. names: the operations' names, in the order of the bindings' walk. MLIR may print no line for a
    `scf.yield` without operands, so `names` must not contain it.
    """
    wanted = set(names)
    lines: list[str] = []
    for line in text.splitlines():
        match = _OPERATION.match(line)
        if match is None or match[1] not in wanted or line.endswith("{"):
            continue
        if match[1] != "scf.yield" or "%" in line:
            lines.append(line)
    if len(lines) != len(names):
        return ()
    for line, name in zip(lines, names, strict=True):
        match = _OPERATION.match(line)
        if match is None or match[1] != name:
            return ()
    return tuple(lines)


def align_first_lines(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the printed line that opens the first region of each operation with regions. Returns () if the text does not
    match `names`.

    text: the printed module. names: the operations' names, in the order of the text.
    """
    wanted = set(names)
    lines: list[str] = []
    found: list[str] = []
    for line in text.splitlines():
        match = _OPERATION.match(line) if line.endswith("{") else None
        if match is not None and match[1] in wanted:
            lines.append(line)
            found.append(match[1])
    return tuple(lines) if found == list(names) else ()


def parse_successors(line: str) -> tuple[int, ...]:
    """Returns the numbers of the blocks to which a branch can go: (1, 3) if its printed line has `^bb1` and `^bb3`. The
    function's entry is block 0.
    """
    return tuple(int(number) for number in re.findall(r"\^bb(\d+)", _STRING.sub("", line)))


def parse_integer(line: str, name: str) -> int | None:
    """Returns the value of an integer attribute in an operation's printed line: 3 for `name = 3 : i32`. Returns None if the
    line does not have the attribute.
    """
    match = re.search(rf"[{{, <]{name} = (-?\d+)(?: : \w+)?[,}}]", _STRING.sub("", line))
    return int(match[1]) if match else None


def parse_integers(line: str, name: str) -> tuple[int, ...] | None:
    """Returns the value of an array attribute in an operation's printed line: (1, 0) for `name = array<i32: 1, 0>`. Returns
    None if the line does not have the attribute.
    """
    match = re.search(rf"[{{, <]{name} = array<i\d+(?:: ([-\d, ]+))?>", _STRING.sub("", line))
    if match is None:
        return None
    return tuple(int(number) for number in (match[1] or "").split(",") if number.strip())


def parse_word(line: str, name: str) -> str:
    """Returns the word after an operation's name in its printed line; '' if there is none. This is `slt` for a line with
    `arith.cmpi slt`, and `x` for one with `tt.get_program_id x`.
    """
    match = re.search(rf"{re.escape(name)} (\w+)", line)
    return match[1] if match else ""


def parse_constant(line: str) -> int | None:
    """Returns the integer in the printed line of an `arith.constant`. It is 0 or 1 for a boolean, and the element for a
    tensor of equal elements. Returns None for any other constant.
    """
    match = re.search(r"arith\.constant (?:\{.*?\} )?(?:dense<)?(-?\d+|true|false)>?(?: : |\s*$)", line)
    if match is None:
        return None
    return {"true": 1, "false": 0}.get(match[1]) if match[1] in ("true", "false") else int(match[1])


def parse_shape(type_text: str) -> tuple[int, ...]:
    """Returns the sizes of a tensor type: (8, 4) for `tensor<8x4xf32>`. For a descriptor or a block pointer, returns the
    sizes of its block; for any other type, ().
    """
    match = _SIZES.search(type_text)
    return tuple(int(size) for size in (match[1] or match[2] or "").split("x")[:-1]) if match else ()


def parse_element(type_text: str) -> str:
    """Returns the element type of a tensor type: `f32` for `tensor<8x4xf32>`. Returns any other type unchanged."""
    match = _TENSOR.match(type_text)
    return match[2] if match else type_text


def parse_width(element: str) -> int | None:
    """Returns the bytes of one element in memory. element: its type, such as `f32`. Returns None if they are unknown."""
    if element.startswith("!tt.ptr"):
        return 8
    if element in _WIDTHS:
        return _WIDTHS[element]
    if re.match(r"f8E\w+\Z", element):
        return 1
    match = _INTEGER.match(element)
    if match is None:
        return None
    bits = int(match[1])
    return 1 if bits < 8 else bits // 8 if bits % 8 == 0 else None


def parse_bits(element: str) -> int | None:
    """Returns the number of bits of an integer type; None for any other type."""
    if element == "index":
        return 64
    match = _INTEGER.match(element)
    return int(match[1]) if match else None


def parse_pointee(type_text: str) -> str:
    """Returns the type of the elements to which a pointer points: `f32` for `!tt.ptr<f32>`. Also takes tensors of pointers,
    block pointers and descriptors. Returns '' for any other type.
    """
    element = parse_element(type_text)
    match = re.match(r"!tt\.(?:ptr|tensordesc)<(.*)>\Z", element, re.DOTALL)
    if match is None:
        return ""
    inner = re.sub(r", \d+\Z", "", match[1])
    return re.sub(r"\A(?:\d+x)+([^,]+).*", r"\1", parse_element(inner))
