"""Objects made while the garbage collector is paused."""

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


def test_objects_to_be_kept_go_to_the_oldest_generation() -> None:
    gc.unfreeze()
    with pause_collector(keep=True):
        assert not gc.isenabled()
        made = [[]]
    assert gc.isenabled()
    assert find_generation(made) == 2


def test_objects_that_were_frozen_before_stay_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with pause_collector(keep=True):
        pass
    assert gc.get_freeze_count() > before // 2 > 500, "only some of the frozen objects may be freed meanwhile"


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with pause_collector(keep=True):
        pass
    assert not gc.isenabled()
