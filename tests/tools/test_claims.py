"""A small part of the nightly `make fuzz-nightly`: fixed numbers of fixed mutations of every kind of input.

Also tests the mutator itself: it detects errors, repeats itself for the same number, and continues where it was
interrupted.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from ligerdiag.model.findings import Verdict
from tests.rotation import TURNS, current_turn
from tools.claims.driver import Totals, run
from tools.claims.json_damage import damage, damage_text
from tools.claims.mutation import Claim
from tools.claims.seeds import make_seeds, open_kinds
from tools.claims.stores import find_stores
from tools.claims.trial import Kind, Outcome, Trial, find_contradictions, find_invalid

COUNTS: Mapping[str, int] = {"pairs": 56, "triton": 20, "text": 30, "artifacts": 50, "caches": 30, "baselines": 75}
SEED = 5_000_000

KERNEL = """\
module {
  tt.func public @k(%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32, %y_ptr: !tt.ptr<f32>) attributes {noinline = false} {
    %row = tt.get_program_id x : i32
    %a = tt.addptr %x_ptr, %row : !tt.ptr<f32>, i32
    %b = tt.splat %y_ptr : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %v = tt.load %a : !tt.ptr<f32>
    %c = arith.select %m, %a, %d : !tt.ptr<f32>
    tt.store %a, %v : !tt.ptr<f32> loc(#loc1)
    tt.store %b, %w : tensor<8x!tt.ptr<f32>>
    tt.store %c, %v : !tt.ptr<f32>
    tt.return
  }
}
"""  # noqa: E501


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled once for all processes of the run."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "claims"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        make_seeds(root / "seeds", ("losses",))
    return root / "seeds"


@pytest.fixture
def open_kind(seeds: Path, tmp_path: Path) -> "Iterator[Open]":
    with ExitStack() as stack:
        yield Open(seeds, tmp_path, stack)


@dataclass(frozen=True)
class Open:
    """Opens kinds by name; they stay open until the test ends."""

    seeds: Path
    scratch: Path
    stack: ExitStack

    def __call__(self, name: str) -> Kind:
        (kind,) = open_kinds(self.seeds, self.scratch, self.stack, (name,))
        return kind


@pytest.mark.parametrize("name", COUNTS)
def test_no_mutation_contradicts_its_claim(name: str, open_kind: Open) -> None:
    turn = current_turn() if name == "pairs" else None  # the others are cheap, or run by night
    count = COUNTS[name] if turn is None else COUNTS[name] // TURNS
    totals = run([open_kind(name)], SEED + (turn or 0) * count, count)
    assert totals.is_good, totals.render()
    assert totals.done.total() == count
    assert len(totals.outcomes) > 1, "mutations of this kind change nothing, or are all refused"


@dataclass(frozen=True)
class Scripted:
    """A kind whose trial ends in a given way."""

    end: Trial | BaseException
    name: str = "pairs"

    def run(self, random: Random) -> Trial:
        if isinstance(self.end, BaseException):
            raise self.end
        return replace(self.end, words=str(random.random()))

    def close(self) -> None:
        pass


GOOD = Trial(words="", outcome=Outcome.OTHER)


@pytest.mark.parametrize(
    ("end", "counts"),
    [
        (GOOD, "0 wrong fresh, 0 tracebacks, 0 above 10 s, 0 above 2048 MiB, 0 against the schema"),
        (replace(GOOD, contradictions=("x",)), "3 wrong fresh, 0 tracebacks"),
        (replace(GOOD, tracebacks=("x",)), "0 wrong fresh, 3 tracebacks"),
        (replace(GOOD, invalid=("x",)), "3 against the schema"),
        (KeyError("x"), "0 wrong fresh, 3 tracebacks"),
    ],
)
def test_each_failure_is_counted(end: Trial | BaseException, counts: str) -> None:
    totals = run([Scripted(end)], 0, 3)
    assert counts in totals.render()
    assert totals.is_good is (end is GOOD)


def test_an_interrupted_run_continues_at_its_next_number() -> None:
    seen: list[str] = []

    def show_totals(totals: Totals) -> None:
        seen.append(totals.slowest[1])
        if totals.done.total() == 2 and len(seen) == 2:
            raise KeyboardInterrupt

    first = run([Scripted(GOOD)], 7, 5, show_totals)
    assert (first.done.total(), first.next_seed) == (2, 9)
    rest = run([Scripted(GOOD)], first.next_seed, 3)
    assert rest.next_seed == 12


def test_a_number_always_makes_the_same_mutation(open_kind: Open) -> None:
    kind = open_kind("pairs")
    assert [kind.run(Random(number)).words for number in range(8)] == [
        kind.run(Random(number)).words for number in range(8)
    ]


def test_the_root_of_a_store_is_found_from_the_text_alone() -> None:
    found = [(one.root, one.type) for one in find_stores(KERNEL)]
    assert found == [(0, "!tt.ptr<f32>"), (1, "tensor<8x!tt.ptr<f32>>"), (None, "!tt.ptr<f32>")]


def test_a_claim_concerns_only_outputs_that_were_wrong_or_unknown() -> None:
    stale, fresh = {"loss": Verdict.STALE}, {"loss": Verdict.FRESH}
    assert find_contradictions(stale, fresh, [Claim.NOT_FRESH]) == ("loss: stale -> fresh",)
    assert find_contradictions(stale, fresh, []) == ()
    assert find_contradictions(fresh, stale, [Claim.NOT_FRESH]) == ()


def test_json_that_is_not_a_report_does_not_match_the_schema() -> None:
    assert find_invalid('{"schema": "7"}')


def test_damaged_json_differs_from_the_original() -> None:
    text = '{"format": 1, "cases": [{"id": "a", "outputs": {"loss": "fresh"}}]}'
    assert len({damage(text, Random(number)) for number in range(40)}) > 20
    assert all(damage_text(text, Random(number)) != text for number in range(3))
