"""HLO text through jaxlib's parser keeps a protobuf's facts, and unparsable text ends in one line."""

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps import text_worker
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction, HloModule, iterate_frames
from ligerdiag.hlo.parse import load_hlo, parse_hlo_module
from ligerdiag.provenance.value_numbers import find_same_elements, number_values
from ligerdiag.replay.ops.movement import load_constant
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.workers import templates as worker_process
from tests.dumps.conftest import CASES, Inspect, Pick, only, outputs

TEXT_FORMS = ("optimizations.txt", "-buffer-assignment.txt")


@pytest.fixture(scope="module")
def translator(cache: Path) -> Iterator[Translator]:
    with Translator(cache=Cache(cache), timeout=60) as opened:
        yield opened


def load_both(folder: Path, translator: Translator) -> tuple[HloModule, HloModule]:
    """Returns the optimized module from protobuf and from text."""
    proto, text = only(folder).optimized
    return load_hlo(proto)[0], parse_hlo_module(translator.translate(text.read_bytes(), text.name))


def describe_schedule(module: HloModule) -> dict[str, list[str]]:
    """Returns names in the schedule's order; text writes get-tuple-element without a name, at its reader."""
    return {
        computation.name: [i.name for i in computation.sequence if i.opcode != "get-tuple-element"]
        for computation in module.computations.values()
        if computation.sequence
    }


def list_shared(proto: HloModule, text: HloModule) -> list[tuple[HloInstruction, HloInstruction]]:
    by_name = {i.name: i for c in text.computations.values() for i in c.instructions}
    shared = [
        (one, by_name[one.name]) for c in proto.computations.values() for one in c.instructions if one.name in by_name
    ]
    assert len(shared) > 20
    return shared


@pytest.mark.parametrize("program", CASES)
def test_the_schedule_is_the_order_of_the_lines(program: str, dumps: Path, translator: Translator) -> None:
    proto, text = load_both(dumps / program, translator)
    assert describe_schedule(text) == describe_schedule(proto)
    assert describe_schedule(text)[proto.entry.name]


@pytest.mark.parametrize("program", CASES)
def test_names_lines_and_payloads_survive(program: str, dumps: Path, translator: Translator) -> None:
    proto, text = load_both(dumps / program, translator)
    payloads = 0
    for one, other in list_shared(proto, text):
        assert other.opcode == one.opcode
        assert other.op_name == one.op_name
        assert list(iterate_frames(text, other)) == list(iterate_frames(proto, one))
        payload, same = one.proto.backend_config, other.proto.backend_config
        if payload.startswith(b"{"):
            assert json.loads(same) == json.loads(payload)
        else:
            assert same == payload
            payloads += bool(payload)
    assert payloads or program == "ordinary"


@pytest.mark.parametrize("program", CASES)
def test_tagged_text_gives_the_same_verdicts_as_the_protobuf(
    program: str, dumps: Path, pick: Pick, inspect: Inspect
) -> None:
    whole, text = inspect(dumps / program), inspect(pick(program, *TEXT_FORMS))
    if program == "ordinary":
        assert not whole.cases
        assert not text.cases
        return
    assert outputs(text) == outputs(whole)
    assert [f.rule for f in text.cases[0].findings] == [f.rule for f in whole.cases[0].findings]
    assert text.cases[0].coverage.buffer_assignment


@pytest.mark.parametrize("program", CASES)
def test_text_without_tags_gives_no_verdict_that_the_order_could_change(
    program: str, dumps: Path, pick: Pick, inspect: Inspect
) -> None:
    tagged = inspect(dumps / program)
    text = inspect(pick(f"{program}-untagged", *TEXT_FORMS))
    assert len(text.cases) == len(tagged.cases)
    for case, known in zip(text.cases, tagged.cases, strict=True):
        pairs = list(zip(case.outputs.values(), known.outputs.values(), strict=True))
        assert all(verdict.value == "unknown" or verdict is meant for verdict, meant in pairs), pairs
        if any(verdict is not meant for verdict, meant in pairs):
            assert any("does not record the order" in line for line in case.coverage.not_covered)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n", "jaxlib cannot parse the module as HLO text"),
        (b"HloModule m\n\nENTRY e {\n  ROOT p = f32[] nonsense(q)\n}\n", "jaxlib cannot parse the module as HLO text"),
        (b"HloModule m\n\nc {\n  ROOT p = f32[] parameter(0)\n}\n", "`x.txt` has no ENTRY computation: it is cut off"),
        (b"HloModule m, " + b"{" * 200_000, "x.txt"),
        (b"HloModule m\n\nENTRY e {\n  ROOT p = " + b"(" * 300_000 + b"\n}\n", "x.txt"),
        (b"HloModule m \xff\xfe", "is not HLO text"),
        (
            b"HloModule m\n\nENTRY e {\n  ROOT p = f32[2] negate(f32[2]{0} constant({...}))\n}\n",
            r"`x\.txt` leaves out the values of a constant in a list of operands",
        ),
    ],
    ids=("cut off", "no opcode", "no entry", "braces", "deep", "no UTF-8", "operand without values"),
)
def test_unparsable_text_is_a_one_line_error_and_the_next_text_is_parsed(
    text: bytes, said: str, dumps: Path, translator: Translator
) -> None:
    with pytest.raises(ArtifactError, match=said) as error:
        translator.translate(text, "x.txt")
    assert "\n" not in str(error.value)
    good = only(dumps / "losses").optimized[1]
    assert translator.translate(good.read_bytes(), good.name)


ELIDED = b"""HloModule m, is_scheduled=true

ENTRY e {
  x = f32[400000,400000] parameter(0)
  one = f32[400000,400000] constant({...}), metadata={op_name="one"}
  other = f32[400000,400000] constant({...}), metadata={op_name="one"}
  zero = f32[2] constant({0, 0})
  sum = f32[400000,400000] add(x, one)
  ROOT r = (f32[400000,400000], f32[400000,400000], f32[2]) tuple(sum, other, zero)
}
"""


def test_constants_with_omitted_values_are_not_zeros_and_not_equal(translator: Translator) -> None:
    module = parse_hlo_module(translator.translate(ELIDED, "x.txt"))  # 640 GB each
    named = {instruction.name: instruction for instruction in module.instructions}
    assert [named[name].opcode for name in ("one", "other", "zero")] == ["constant"] * 3
    assert find_same_elements(named["sum"]) is None
    numbers = number_values(module.entry)
    assert numbers[named["one"].id] != numbers[named["other"].id]
    with pytest.raises(NotCoveredError, match="leaves out"):
        load_constant(named["one"])
    assert np.array_equal(load_constant(named["zero"]), [0, 0])


LONG_TEXT = b"HloModule m\n\nENTRY e {\n  a0 = f32[] parameter(0)\n%s\n  ROOT r = f32[] negate(a0)\n}\n" % b"\n".join(
    b"  a%d = f32[] add(a%d, a%d)" % (number, number - 1, number - 1) for number in range(1, 100_000)
)


def test_a_text_that_takes_too_long_is_ended_by_processor_time(cache: Path) -> None:
    with (
        Translator(cache=Cache(cache), timeout=1e-3) as hasty,
        pytest.raises(ArtifactError, match=r"ligerdiag stopped parsing `x\.txt` after 0\.001 s of processor time"),
    ):
        hasty.translate(LONG_TEXT, "x.txt")


def test_a_busy_machine_ends_no_text(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock runs a hundred times too fast for the text's processor time."""
    start = worker_process.monotonic()
    monkeypatch.setattr(worker_process, "monotonic", lambda: start + 100 * (monotonic() - start))
    assert translator.translate(LONG_TEXT, "x.txt")


def test_a_text_above_the_limit_is_not_passed_to_a_worker(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_worker, "MAXIMUM_TEXT_BYTES", 10)
    with (
        Translator(cache=Cache(cache)) as opened,
        pytest.raises(
            ArtifactError, match=r"`x\.txt` has 11 bytes of text, more than 10: pass the module as a protobuf"
        ),
    ):
        opened.translate(b"HloModule m", "x.txt")
