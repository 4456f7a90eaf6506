"""What is made while the collector is paused."""

import gc
from collections.abc import Iterator

import pytest

from ligerdiag.hlo.parse import pause_collector


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()


def find_generation(made: object) -> int | None:
    return next((n for n in range(3) if any(one is made for one in gc.get_objects(generation=n))), None)


def test_what_will_stay_goes_to_the_oldest_generation() -> None:
    gc.unfreeze()
    with pause_collector(keep=True):
        assert not gc.isenabled()
        made = [[]]
    assert gc.isenabled()
    assert find_generation(made) == 2


def test_what_somebody_has_frozen_stays_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with pause_collector(keep=True):
        pass
    assert gc.get_freeze_count() > before // 2 > 500, "some of the frozen objects may be freed meanwhile, as any other"


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with pause_collector(keep=True):
        pass
    assert not gc.isenabled()
