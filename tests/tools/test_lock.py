"""The pins that `make lock` writes."""

from tools.lock import parse_choices, parse_export, render_pyproject

BEFORE = """[tool.uv]
constraint-dependencies = [
  # chosen: it ran on hardware
  "triton==3.6.0",
  # resolved: rewritten by `make lock`
  "old==1.0",
]

[tool.ruff]
"""


def test_choices_stay_and_pins_are_replaced() -> None:
    after = render_pyproject(BEFORE, parse_choices(BEFORE), ["jax==0.11.2", "triton==3.6.0"])
    assert after == BEFORE.replace("old==1.0", "jax==0.11.2")
    assert render_pyproject(after, parse_choices(after), ["jax==0.11.2", "triton==3.6.0"]) == after


def test_an_export_is_sorted_and_keeps_markers_only_where_versions_differ() -> None:
    export = (
        "# a comment\n-e .\n"
        "numpy==2.4.0 ; python_full_version >= '3.14'\nnumpy==2.3.0 ; python_full_version < '3.14'\n"
        "jax-cuda13-plugin==0.11.2\njax==0.11.2 ; sys_platform == 'linux'\n"
    )
    assert parse_export(export) == [
        "jax==0.11.2",
        "jax-cuda13-plugin==0.11.2",
        "numpy==2.3.0 ; python_full_version < '3.14'",
        "numpy==2.4.0 ; python_full_version >= '3.14'",
    ]


def test_a_marker_is_quoted_once() -> None:
    text = render_pyproject(BEFORE, "", ["numpy==2.3.0 ; python_full_version < '3.14'"])
    assert "  \"numpy==2.3.0 ; python_full_version < '3.14'\",\n" in text
