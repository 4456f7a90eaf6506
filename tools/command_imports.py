"""Imports all that commands of ligerdiag import, including late imports; see `warm_commands`."""

import gc
from contextlib import suppress
from importlib import import_module

from ligerdiag.garbage import collect_rarely

collect_rarely()

for name in ("ligerdiag.api", "ligerdiag.cli.main", "ligerdiag.config", "ligerdiag.report.terminal.full_report"):
    import_module(name)
with suppress(ImportError):  # typer has it in newer versions, and pydantic with it
    import_module("typer._adapters")
gc.freeze()  # forks share the memory of what nobody frees
