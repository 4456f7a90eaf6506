"""Triton's MLIR bindings, as far as they are used here, with types: the bindings themselves have none.

Importing this module imports Triton. Operations and values are handles into a module that must be kept alive.
"""

import importlib
import os
from collections.abc import Callable
from typing import Protocol, cast

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
    """`mlir::Operation`; successors cannot be asked for."""

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


class _Context(Protocol):
    """`mlir::MLIRContext`."""


class _Ir(Protocol):
    def context(self) -> _Context: ...
    def load_dialects(self, context: _Context, /) -> None: ...
    def parse_mlir_module(self, path: str, context: _Context, /) -> Module: ...


class _Backend(Protocol):
    def load_dialects(self, context: _Context, /) -> None: ...


_BACKENDS = ("nvidia", "amd")
"""Submodules that bring the dialects of one vendor's kernels; a build of Triton may lack one."""


def parse_module(source: bytes) -> tuple[Module, _Context]:
    """The verified MLIR module in `source` (text or bytecode) and the context that must outlive it.

    Raises ArtifactError where Triton's parser or verifier refuses it. Hostile input can also kill the process: see
    `isolated`.
    """
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
