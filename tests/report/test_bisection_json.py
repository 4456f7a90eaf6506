"""The JSON form of bisections meets its part of the schema."""

import json

import jsonschema
import pytest

from ligerdiag.report.comparisons import Bisection
from ligerdiag.report.json import compute_version, render_bisections_json
from tests.report.bisection_samples import make_bisection
from tools.json_schema import load_schema


def _validate(text: str) -> None:
    schema = load_schema()
    jsonschema.Draft202012Validator({"$ref": "#/$defs/bisections", "$defs": schema["$defs"]}).validate(json.loads(text))


@pytest.mark.parametrize(
    "bisections", [(), (make_bisection(),), (make_bisection(rows=(), answers=(), notes=(), interrupted=True),)]
)
@pytest.mark.parametrize("exit_code", [0, None])
def test_output_matches_the_schema(bisections: tuple[Bisection, ...], exit_code: int | None) -> None:
    _validate(render_bisections_json(bisections, exit_code=exit_code))


def test_rows_in_json_have_the_cells_of_the_table() -> None:
    found = json.loads(render_bisections_json([make_bisection()], exit_code=0))
    assert (found["version"], found["exit_code"]) == (compute_version(), 0)
    (bisection,) = found["bisections"]
    assert (bisection["case"], bisection["axis"], bisection["trials"]) == ("flce[hidden]", "edges", 4)
    row = bisection["rows"][1]
    assert (row["label"], row["answer"], row["word"]) == ("ties 1, 2", True, "right")
    assert row["outputs"] == {"loss": "fresh", "bias": "fresh"}
    assert row["cells"] == {"bytes": "+4 MiB"}
    assert row["evidence"][1] == {"label": "tie 2", "text": "`dot` at train.py:4"}
    assert bisection["rows"][2]["label"] == "without 1"


def test_the_schema_refuses_unknown_fields() -> None:
    found = json.loads(render_bisections_json([make_bisection()], exit_code=0))
    found["bisections"][0]["rows"][0]["more"] = 1
    with pytest.raises(jsonschema.ValidationError):
        _validate(json.dumps(found))
