"""Generates the JSON schema of `[tool.ligerdiag]` in pyproject.toml from the code that reads the table.

`python -m tools.config_schema docs/schema/pyproject-ligerdiag.json [--check]`. The file has the form that SchemaStore
takes for a tool's part of pyproject.toml: draft 7, one object that allows no other keys.
"""

import json
import sys
from collections.abc import Sequence

from ligerdiag import config
from ligerdiag.effects import declared
from ligerdiag.model.memory_limits import SIZE
from ligerdiag.rules.registry import RULES
from tools.generated_file import run_file_command

type Schema = dict[str, object]

_WORD: Schema = {"type": "string", "pattern": "\\S"}


def make_schema() -> Schema:
    """Returns the schema; raises KeyError if a key that the code reads has no description here."""
    described = _describe_keys()
    if unknown := set(described) - set(config.KEYS):
        raise KeyError(f"described, and not read: {', '.join(sorted(unknown))}")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://json.schemastore.org/partial-ligerdiag.json",
        "title": "ligerdiag",
        "description": "Configuration of ligerdiag, which checks the schedules that XLA makes of JAX programs.",
        "type": "object",
        "additionalProperties": False,
        "properties": {key: described[key] for key in config.KEYS},
    }


def _describe_keys() -> dict[str, Schema]:
    return {
        "suppress": {
            "description": "Findings that are allowed, each with a reason.",
            "type": "array",
            "items": _make_entry(),
        },
        "effects": {
            "description": "What custom calls do to their operands, by custom-call target, kernel or pattern.",
            "type": "object",
            "propertyNames": {"minLength": 1},
            "additionalProperties": _make_effects(),
        },
        "targets": {
            "description": "GPUs to compile for: names such as h100, or paths of descriptions. Default of --target.",
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "examples": [["h100"], ["a100", "h100"]],
        },
        "fail_on": {
            "description": "The lowest severity that fails a case without expectation. Default of --fail-on.",
            "enum": list(config.FAIL_ON),
        },
        "strict": {
            "description": "Fail on inconclusive cases and on unused suppressions. Default of --strict.",
            "type": "boolean",
        },
        "baseline": {
            "description": "Path of the schedules that --record wrote, relative to this file. Default of --baseline.",
            "type": "string",
            "minLength": 1,
        },
        "known": {
            "description": "Path of the findings that --record-known wrote, relative to this file. Default of --known.",
            "type": "string",
            "minLength": 1,
        },
        "autotune_results": {
            "description": "Path of the choices of XLA's autotuner, relative to this file. Default of --autotune-results.",
            "type": "string",
            "minLength": 1,
        },
        "memory_budget": _make_size("Most memory of one call on one device. Default of --memory-budget.", least=1),
        "copy_budget": _make_size("Most bytes that one call copies. Default of --copy-budget.", least=0),
    }


def _make_entry() -> Schema:
    rules = [name for rule in RULES for name in (rule.id, rule.name)]
    filters = {
        "case": "Glob over the id of the case.",
        "kernel": "Glob over the name of the kernel's function.",
        "output": "Glob that every output of the finding must match.",
        "source": "Glob over the file of the call or of the reader, relative to this file's folder.",
    }
    given: dict[str, Schema] = {
        "rule": {"description": "Id or name of the rule.", "type": "string", "enum": rules},
        "reason": {"description": "Why the finding is allowed.", **_WORD},
        **{name: {"description": filters[name], **_WORD} for name in config.FILTERS},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(config.REQUIRED),
        "properties": {key: given[key] for key in (*config.REQUIRED, *config.FILTERS)},
    }


def _make_effects() -> Schema:
    numbers: Schema = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": declared.LARGEST},
        "uniqueItems": True,
    }
    given: dict[str, Schema] = {
        "writes": {
            "description": f'Numbers of the operands that the call overwrites; "{declared.ALIASED}" for only those '
            "that its outputs alias.",
            "anyOf": [numbers, {"const": declared.ALIASED}],
        },
        "reads": {"description": "Numbers of the operands that the call reads; without it, all of them.", **numbers},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["writes"],
        "properties": {key: given[key] for key in declared.KEYS},
    }


def _make_size(description: str, *, least: int) -> Schema:
    return {
        "description": description,
        "anyOf": [
            {"type": "integer", "minimum": least},
            {"type": "string", "pattern": f"^\\s*{_make_pattern()}\\s*$"},
        ],
        "examples": ["60G", "500M", 1048576],
    }


def _make_pattern() -> str:
    """Returns the regular expression of a size for readers without flags: each letter in both cases."""
    found = SIZE.pattern.replace("[KMGT]", "[KMGTkmgt]").replace("(?:I?B)?", "(?:[Ii]?[Bb])?")
    return found.replace("\\d", "[0-9]")


def render_schema() -> str:
    """Returns the text of the file."""
    return json.dumps(make_schema(), indent=2, ensure_ascii=True) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the file; returns 0, 1 when it is stale, 2 for wrong usage."""
    return run_file_command(arguments, "tools.config_schema", render_schema)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
