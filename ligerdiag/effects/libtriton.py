"""Triton's MLIR bindings, as far as they are used here, with types: the bindings themselves have none.

Importing this module imports Triton. Operations and values are handles into a module that must be kept alive.
"""

import importlib
import os
import re
from collections.abc import Callable
from typing import Any, Protocol, cast

from ligerdiag.errors import ArtifactError


class Type(Protocol):
    """`mlir::Type`; `str` prints it."""


class Value(Protocol):
    """`mlir::Value`."""

    def id(self) -> int: ...
    def get_type(self) -> Type: ...


class Region(Protocol):
    """`mlir::Region`."""

    def id(self) -> int: ...
    def size(self) -> int: ...


class Block(Protocol):
    """`mlir::Block`."""

    def id(self) -> int: ...
    def get_parent(self) -> Region: ...
    def get_num_arguments(self) -> int: ...
    def get_argument(self, index: int, /) -> Value: ...


class Operation(Protocol):
    """`mlir::Operation`; its successors are not accessible."""

    def get_name(self) -> str: ...
    def get_num_operands(self) -> int: ...
    def get_operand(self, index: int, /) -> Value: ...
    def get_num_results(self) -> int: ...
    def get_result(self, index: int, /) -> Value: ...
    def get_num_regions(self) -> int: ...
    def get_region(self, index: int, /) -> Region: ...
    def get_block(self) -> Block: ...
    def get_bool_attr(self, name: str, /) -> bool | None: ...
    def get_str_attr(self, name: str, /) -> str | None: ...
    def get_flat_symbol_ref_attr(self, name: str, /) -> str | None: ...


class Module(Protocol):
    """`mlir::ModuleOp`."""

    def walk(self, visit: Callable[[Operation], None], /) -> None: ...
    def str_nodebug(self) -> str: ...
    def str(self) -> str: ...


class _Context(Protocol):
    """`mlir::MLIRContext`."""


class _Ir(Protocol):
    def context(self) -> _Context: ...
    def load_dialects(self, context: _Context, /) -> None: ...
    def parse_mlir_module(self, path: str, context: _Context, /) -> Module: ...


class _Backend(Protocol):
    def load_dialects(self, context: _Context, /) -> None: ...


_LOCATION = re.compile(r" loc\((?:#loc\d*|unknown)\)$", re.MULTILINE)

_BACKENDS = ("nvidia", "amd")
"""Submodules that bring the dialects of one vendor's kernels; a build of Triton may lack one."""


_BYTECODE = b"ML\xefR"


def print_module(module: Module) -> str:
    """Returns the module's text without locations. Triton before 3.5 or so has no such printer: there they are cut
    off."""
    printer = getattr(module, "str_nodebug", None)
    return module.str_nodebug() if printer is not None else _LOCATION.sub("", module.str())


def parse_module(source: bytes) -> tuple[Module, _Context]:
    """Returns the verified MLIR module in `source` (text or bytecode) and the context that must outlive it.

    Bytecode is bound to the version of the dialects that wrote it. Pallas's is written by jaxlib, and if Triton refuses
    it, jaxlib is asked for its text. Raises ArtifactError when Triton's parser or verifier refuses that, too. Hostile
    input can also kill the process: see `isolated`.
    """
    try:
        return _parse(source)
    except ArtifactError:
        text = _render_by_jaxlib(source) if source.startswith(_BYTECODE) else b""
        if not text:
            raise
        return _parse(text)


def _render_by_jaxlib(bytecode: bytes) -> bytes:
    """Returns the text of a module in bytecode, empty where jaxlib does not take it."""
    try:
        ir: Any = importlib.import_module("jaxlib.mlir.ir")
        dialect: Any = importlib.import_module("jaxlib.triton.dialect")
        context = ir.Context()
        dialect.register_dialect(context)
        with context:
            return str(ir.Module.parse(bytecode).operation.get_asm()).encode()
    except Exception:  # MLIR's own exceptions have no common base
        return b""


def _parse(source: bytes) -> tuple[Module, _Context]:
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
        raise ArtifactError(f"the kernel's MLIR is not understood by triton {version}") from error
    finally:
        os.close(descriptor)
