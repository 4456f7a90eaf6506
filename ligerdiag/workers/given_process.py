"""Sends a worker the command line and the environment variables of the process that asks, the one that the user
started. The worker shows them to the user's code.

A worker runs with variables of its own (see `toolchains.toolchain`), such as JAX_PLATFORMS=cpu, and with an `sys.argv`
of its own. Libraries must get the worker's. But a program that makes a choice by them must make the same choice as in
the user's process.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from ligerdiag.codec import FieldError, encode_record, parse_record

GIVEN_VARIABLE = "LIGERDIAG_GIVEN"
"""Name of a worker's environment variable that holds the record as JSON."""
_MOST_LETTERS = 100_000
"""Linux refuses to start a process with a longer variable than 128 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenProcess:
    """The command line and the environment variables of the process that the user started. It asks the workers."""

    argv: tuple[str, ...] | None = None
    """Its `sys.argv`; None if it is too long to be passed on."""
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Its values of the variables that differ in the worker; None for a variable that it does not have."""


def render_given(environment: Mapping[str, str]) -> str:
    """Returns the record of this process, which is about to start a worker, as JSON.

    environment: the variables of the worker.
    """
    own = {name: value for name, value in os.environ.items() if name != GIVEN_VARIABLE}
    names = [name for name in sorted({*own, *environment, GIVEN_VARIABLE}) if own.get(name) != environment.get(name)]
    variables = {name: own.get(name) for name in {*names, GIVEN_VARIABLE}}
    text = json.dumps(
        encode_record(GivenProcess(argv=tuple(map(str, sys.argv)), variables=dict(sorted(variables.items()))))
    )
    if len(text) > _MOST_LETTERS:
        text = json.dumps(encode_record(GivenProcess(variables=variables)))
    return text if len(text) <= _MOST_LETTERS else ""


def read_given() -> GivenProcess:
    """Returns the record that this worker was started with. Returns an empty record if it has none."""
    try:
        return parse_record(GivenProcess, os.environ.get(GIVEN_VARIABLE, "").encode())
    except FieldError:
        return GivenProcess()
