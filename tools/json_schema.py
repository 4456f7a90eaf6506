"""The JSON Schema of what ligerdiag writes as JSON, for tests and trials that check the output against it."""

import json
from importlib import resources

from ligerdiag.codec import JsonObject


def load_schema() -> JsonObject:
    """Returns the JSON Schema (draft 2020-12) of every output of `ligerdiag.report.json`."""
    return json.loads(resources.files("ligerdiag.report").joinpath("schema.json").read_text(encoding="utf-8"))
