"""Imports all that commands of ligerdiag import, including late imports; see `warm_commands`."""

from contextlib import suppress
from importlib import import_module

for name in ("ligerdiag.api", "ligerdiag.cli.main", "ligerdiag.config", "ligerdiag.report.terminal.full_report"):
    import_module(name)
with suppress(ImportError):  # typer has it in newer versions, and pydantic with it
    import_module("typer._adapters")
