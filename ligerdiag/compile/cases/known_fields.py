"""Builds XLA's topology of a described target, without those fields of the description that this XLA does not know.

XLA refuses a description with a field or an enum value that it does not know. XLA's parser writes the number of the line to
the process's standard error, and the exception that JAX raises does not have this number. So XLA gets the description with
one field on each line; the field whose line the parser reports is dropped, until XLA takes the rest. Nothing else is
dropped: any other fault is an error of the description. If XLA aborts, the worker dies with it, and its parent reports that
(`workers.process`).
"""

import os
import re
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import jax
from jax.experimental import topologies

from ligerdiag.compile.cases.plugin import find_platform
from ligerdiag.errors import CompileError, LigerdiagError, describe_fault
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.text_format import FieldLine, drop_field, render_fields, split_fields, strip_comments
from ligerdiag.toolchains.toolchain import Platform

MOST_DROPPED = 100
"""The most fields that are dropped from one description."""
_ONE_DEVICE = "1x1x1"
_UNKNOWN = re.compile(
    r"Error parsing text-format [\w.]+: (?P<line>\d+):\d+: (?P<fault>"
    r'Message type "[\w.]+" has no field named|Unknown enumeration value of "[^"]*" for field) "(?P<name>\w+)"'
)
_REFUSED = re.compile(r"Error parsing text-format [\w.]+: (?P<fault>\d+:\d+: .*)")
_NEEDED = (
    "gpu_device_info",
    "gpu_device_info.cuda_compute_capability",
    "gpu_device_info.cuda_compute_capability.major",
    "gpu_device_info.rocm_compute_capability",
    "gpu_device_info.rocm_compute_capability.gcn_arch_name",
)
"""Fields without which XLA would compile for another GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDescription:
    """A target's description without the fields that the worker's version of XLA does not know."""

    text: str
    """The description; unchanged, with its comments, if XLA knows all fields."""
    dropped: tuple[str, ...]
    """Paths of the dropped fields, such as `gpu_device_info.name`, each once."""


@lru_cache(maxsize=8)
def fit_description(description: str) -> KnownDescription:
    """Drops the fields of the description that this XLA does not know, and returns the rest. Raises InputError if the
    description is not in protobuf text format, and CompileError if XLA refuses the rest.
    """
    bare = strip_comments(description)
    try:
        _ask(_ONE_DEVICE, bare)
    except Exception:  # the loop below asks again, and reads why
        lines = split_fields(bare)
    else:
        return KnownDescription(text=description, dropped=())
    dropped: list[str] = []
    while True:
        text = render_fields(lines)
        said, fault = _try(text)
        if fault is None:
            return KnownDescription(text=text, dropped=tuple(dict.fromkeys(dropped)))
        unknown = _UNKNOWN.search(said)
        number = -1 if unknown is None else _find_line(lines, int(unknown["line"]), unknown["name"])
        if unknown is None or number < 0 or len(dropped) == MOST_DROPPED:
            refused = _REFUSED.search(said)
            raise _refuse(refused["fault"].strip() if refused else describe_fault(fault)) from fault
        path = lines[number].path
        if path in _NEEDED:
            raise _refuse(
                f"this XLA does not know the field `{path}`, and without the field it would compile for another GPU"
            ) from fault
        dropped.append(path)
        lines = drop_field(lines, number)


def _find_line(lines: Sequence[FieldLine], end: int, name: str) -> int:
    """Returns the index of the line that begins the field of which XLA's parser complains: the last one among the first
    `end` lines that begins a field of that name; -1 if there is none.

    end: the number, from 1, of the line that the parser reports. When it complains, the parser may have read on to the
    end of the field's value, so the field may begin above that line.
    """
    places = (number for number in range(min(end, len(lines)) - 1, -1, -1) if lines[number].lines)
    return next((number for number in places if lines[number].path.rpartition(".")[2] == name), -1)


@lru_cache(maxsize=8)
def build_topology(name: str, description: str) -> Any:
    """Returns the topology of that name, such as `1x2x1`, with devices as described. Raises CompileError if XLA refuses
    the description.

    description: a target's description without comments.
    """
    try:
        return _ask(name, description)
    except Exception as fault:
        traceback.print_exception(fault)
        raise _refuse(describe_fault(fault)) from fault


def build_first_topology() -> None:
    """Builds the topology of one H100 before this process forks, so that the forks need not read XLA's files for it
    again. Most programs are compiled for an H100. Does nothing on a machine with a GPU, because the GPU's driver must
    not be used before a fork.

    An error of XLA is ignored here. The worker that builds the topology again reports it.
    """
    if find_platform() is not Platform.CUDA or any(Path("/dev").glob("nvidia*")):
        return
    with suppress(LigerdiagError):
        description = fit_description(load_target("h100").description).text
        build_topology(_ONE_DEVICE, strip_comments(description))


def _ask(name: str, description: str) -> Any:
    library: Any = topologies
    platform = find_platform().value
    return library.get_topology_desc(topology_name=name, platform=platform, topology=name, target_config=description)


def _try(description: str) -> tuple[str, Exception | None]:
    """Returns what XLA wrote to the error output while it read the description, and the error that it raised."""
    fault: Exception | None = None
    with _capture_errors() as file:
        try:
            _ask(_ONE_DEVICE, description)
        except Exception as error:
            fault = error
        sys.stderr.flush()
        file.seek(0)
        said = file.read().decode(errors="replace")
    return said, fault


@contextmanager
def _capture_errors() -> Generator[IO[bytes]]:
    """Redirects the error output of the process, also that of C++ code, to a file inside the context."""
    sys.stderr.flush()
    kept = os.dup(2)
    with TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _refuse(reason: str) -> CompileError:
    return CompileError(f"XLA of jax {jax.__version__} does not take the description of a GPU: {reason}")
