"""Reads a file with a StableHLO module, or with a program that `jax.export` has serialized, and makes a case of it.

The file may come from a stranger. The worker reads it, within bounds on its size and on the worker's memory; a crash of
MLIR's parser or of XLA ends only the worker. No code of the file is run.
"""

import resource
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ligerdiag.compile.cases.exported_program import is_exported, take_exported
from ligerdiag.compile.cases.normalize import normalize_case
from ligerdiag.compile.cases.stablehlo_program import needs_wide_types, read_stablehlo
from ligerdiag.errors import CompileError, InputError, describe_fault
from ligerdiag.missing_packages import describe_missing, is_missing
from ligerdiag.model.case import Case
from ligerdiag.untrusted_files import (
    MAXIMUM_STABLEHLO_BYTES,
    STABLEHLO_BASE_MEMORY_BYTES,
    STABLEHLO_MEMORY_PER_BYTE,
    is_flatbuffer,
    read_untrusted,
)


def load_stablehlo_case(path: Path, name: str) -> tuple[Case, Mapping[str, object]]:
    """Returns the case of the program in the file, and the settings of `jax.config` that it needs. Raises CompileError
    if the file cannot be read, or if ligerdiag cannot compile the program.

    name: name of the case.
    """
    data = read_untrusted(path, MAXIMUM_STABLEHLO_BYTES)
    _limit_memory(STABLEHLO_BASE_MEMORY_BYTES + STABLEHLO_MEMORY_PER_BYTE * len(data))
    if is_flatbuffer(data):
        return _read_exported(data, name), {}
    try:
        case = read_stablehlo(name, data)
    except CompileError as error:
        raise CompileError(f"`{name}`: {error}") from error
    settings: dict[str, object] = {"jax_enable_x64": True} if needs_wide_types(case) else {}
    if case.mesh:
        settings["jax_use_shardy_partitioner"] = True
    return case, settings


def _read_exported(data: bytes, name: str) -> Case:
    if is_missing("flatbuffers"):
        raise CompileError(f"`{name}`: {describe_missing('a program of `jax.export`', 'flatbuffers')}")
    import jax.export

    library: Any = jax.export
    try:
        exported: Any = library.deserialize(bytearray(data))
    except Exception as fault:
        raise CompileError(f"`{name}`: `jax.export` cannot read the program: {describe_fault(fault)}") from fault
    if not is_exported(exported):
        raise CompileError(f"`{name}`: expected a program of `jax.export` but got a {type(exported).__name__}")
    try:
        function, args, keywords = take_exported(exported, ())
        return replace(normalize_case(Case(name=name, function=function, args=args, kwargs=keywords)), name=name)
    except InputError as error:
        raise CompileError(f"`{name}`: {error}") from error


def _limit_memory(most: int) -> None:
    """Limits the data of this process, in bytes, unless it has a lower limit already."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
