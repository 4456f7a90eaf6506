"""The kernel cases with a plain install: jax-triton 0.4 and a newer Triton, whose calls XLA treats differently.

The nightly run takes one hidden and one declared case of each file in `cases/`, the daily run a few of them; Mosaic's
cases need no jax-triton. Every difference from the pinned versions was checked on an H200
(docs/measurements/2026-11-24-h200.md).
"""

import functools
import importlib
import json
import pkgutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import cases
from cases import in_flight, sub_views
from ligerdiag.model.case import Case
from tools.documents import ROOT

WITHOUT_JAX_TRITON = ("fused_alias", "mosaic")
DIFFERENT: dict[str, tuple[dict[str, str], set[str]]] = {
    "autotuned[hidden]": ({}, {"LD006"}),  # the launcher tries no configurations
    "autotuned[aliased]": ({}, set()),
    "sub_views[hidden]": (
        {
            "first": "latent",
            "second": "latent",
            "whole": "clobbered",
        },  # the kernel gets addresses inside the parent's buffer
        {"LD003", "LD004", "LD006"},
    ),
    "unknown_effect[aliased]": (
        {"product": "unknown", "total": "unknown"},
        {"LD014"},
    ),  # the analysis loses its only pointer
}
"""Outputs that are not fresh, and rules, where they differ from those with the pinned versions."""


def choose(mode: str) -> Iterator[str]:
    for module in pkgutil.iter_modules(cases.__path__, "cases."):
        found: tuple[Case, ...] = importlib.import_module(module.name).CASES
        own = [one for one in found if mode in one.params and one.name not in WITHOUT_JAX_TRITON]
        yield from (one.id for one in own[:1])


_DAILY_FILES = ("seed_flce", "saved_residual", "accumulated_sum", "sharded_flce", "rms_norm")
DAILY = tuple(
    dict.fromkeys(
        (
            *(name for name in choose("hidden") if name.startswith(_DAILY_FILES)),
            *(one.id for one in (*in_flight.CASES, *sub_views.CASES)),
            *DIFFERENT,
        )
    )
)
NIGHTLY = tuple(name for name in (*choose("hidden"), *choose("aliased")) if name not in DAILY)
ALL = [
    *(("daily", name) for name in DAILY),
    *(pytest.param("nightly", name, marks=pytest.mark.nightly) for name in NIGHTLY),
]

type Reports = Mapping[str, Any]
"""By case id."""


@pytest.fixture(scope="module")
def judge(
    plain_python: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], Reports]:
    """Returns a function from a level to the reports of those of its cases that this run tests."""
    tests = [one for one in request.session.items if one.nodeid.startswith(f"{request.node.nodeid}::")]
    chosen = [one.callspec.params for one in tests if isinstance(one, pytest.Function)]

    @functools.cache
    def run(level: str) -> Reports:
        names = [params["name"] for params in chosen if params["level"] == level]
        words = ("check", *names, "--cache-dir", str(tmp_path_factory.mktemp("cache")), "--format", "json")
        program = plain_python.with_name("ligerdiag")
        done = subprocess.run([program, *words], cwd=ROOT, stdout=subprocess.PIPE, check=False)
        return {case["id"]: case for case in json.loads(done.stdout)["cases"]}

    return run


@pytest.mark.parametrize(("level", "name"), ALL)
def test_a_case_has_the_expected_verdicts_or_those_of_an_h200(
    level: str, name: str, judge: Callable[[str], Reports]
) -> None:
    report = judge(level)[name]
    assert report["replay"]["state"] == "done"
    assert report["error"] == ""
    assert report["disagreements"] == []
    if name not in DIFFERENT:
        assert report["status"] in {"as expected", "clean"}, report["mismatch"]
        return
    wrong, rules = DIFFERENT[name]
    assert {output: verdict for output, verdict in report["outputs"].items() if verdict != "fresh"} == wrong
    assert {rule for finding in report["findings"] for rule in finding["rules"]} == rules
