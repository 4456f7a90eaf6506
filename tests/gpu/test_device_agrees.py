"""Compares the static verdict on the device's own artifact with the device's results."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import FAR, Verdict
from tests.gpu.conftest import parametrize_cases
from tools.fuzz.gpu_campaign import run_device_campaign
from tools.fuzz.judged_programs import FuzzOptions

ROOT = Path(__file__).parents[2]
SELECTORS = ("seed_flce[*-float32-*-4-2048-50304-1024]", "bf16_flce[False-*-4-2048-50304-1024]", "mosaic*")
"""Too large to be replayed here, or Mosaic GPU kernels, which are never replayed; `test_three_ways` has the small ones.
"""
SEEDS = 40
PRIME = 10_000
"""The first of the seeds whose agreement docs/measurements reports."""
RIGHT = (Verdict.FRESH, Verdict.LATENT)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_cases(metafunc, SELECTORS)


def test_an_output_is_wrong_on_the_device_exactly_if_its_verdict_says_so(
    case_id: str, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with the reference in plain jnp, wrong outputs lie above 11 and lossy ones at 0.25 (docs/measurements)."""
    monkeypatch.chdir(ROOT)
    options = api.CheckOptions(selectors=(case_id,), cache_directory=shared_cache, device=True, replay=False)
    (case,) = api.check(options).cases
    assert case.device is not None
    assert case.device.intended_from.startswith("reference"), case.device.error
    misjudged: dict[str, tuple[str, tuple[float, ...]]] = {}
    for name, output in case.device.outputs.items():
        is_wrong = not all(error < FAR for error in output.errors)
        verdict = case.device.verdicts[name]
        if is_wrong != (verdict in ("stale", "clobbered")):
            misjudged[name] = verdict, output.errors
    assert misjudged == {}


def test_random_programs_are_rarely_misjudged(tmp_path: Path) -> None:
    """No wrong output is missed; false alarms occur (docs/measurements says how many), but must not become common."""
    options = FuzzOptions(directory=tmp_path, first=PRIME, count=SEEDS, jobs=4)
    tally = run_device_campaign(options, lambda _: None).count_outputs()
    wrong = sum(count for (_, words), count in tally.items() if words == "wrong")
    right = sum(count for (_, words), count in tally.items() if words == "right")
    assert wrong > SEEDS / 2
    assert sum(count for (verdict, words), count in tally.items() if verdict in RIGHT and words == "wrong") == 0, tally
    assert tally["stale", "right"] + tally["clobbered", "right"] <= right // 10, tally
