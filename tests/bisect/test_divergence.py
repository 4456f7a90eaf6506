"""The pass at which two compiles diverge, from hand-written modules; `test_targets` has real ones."""

from pathlib import Path

import pytest

from ligerdiag.bisect.snapshots import list_snapshots
from ligerdiag.bisect.targets import describe_divergence, describe_instruction, find_divergence, load_states
from ligerdiag.errors import ArtifactError
from tests.hlo.building import Builder

NAMES = (
    "module_0001.jit_f.0000.pre.after_pipeline-start.before_inline.hlo.pb",
    "module_0001.jit_f.0001.fusion.after_priority-fusion.before_cse.hlo.pb",
    "module_0001.jit_f.0002.fusion.after_cse.hlo.pb",
    "module_0001.jit_f.0003.schedule.after_pipeline-start.before_hide.hlo.pb",
    "module_0001.jit_f.0004.schedule.after_hide.before_pipeline-end.hlo.pb",
)


def write(folder: Path, states: str, *, numbers: tuple[int, ...] = (0, 1, 2, 3, 4)) -> tuple[Path, ...]:
    """Writes snapshots whose modules read x, apply the opcode of each letter, and return the result."""
    folder.mkdir()
    opcodes = {"a": ("negate",), "b": ("negate", "exponential"), "c": ("exponential",), "d": ("sine", "negate")}
    paths: list[Path] = []
    for number, letter in zip(numbers, states, strict=True):
        builder = Builder()
        entry = builder.computation(f"entry.{number}")
        value = builder.add(entry, "parameter")
        for opcode in opcodes[letter]:
            value = builder.add(entry, opcode, [value])
        path = folder / NAMES[number]
        path.write_bytes(builder.bytes())
        paths.append(path)
    return tuple(paths)


def test_snapshots_come_in_numeric_order_and_only_from_the_last_module(tmp_path: Path) -> None:
    names = [
        *reversed(NAMES),
        "module_0001.jit_f.before_optimizations.hlo.pb",
        "module_0000.jit_g.0009.x.after_y.hlo.pb",
    ]
    steps = list_snapshots([tmp_path / name for name in names])
    assert [(step.pipeline, step.after) for step in steps] == [
        ("pre", "pipeline-start"),
        ("fusion", "priority-fusion"),
        ("fusion", "cse"),
        ("schedule", "pipeline-start"),
        ("schedule", "hide"),
    ]
    assert steps[1].text == "`priority-fusion` (pipeline `fusion`)"
    assert steps[3].text == "the work before pipeline `schedule`"


def test_snapshots_of_one_module_are_one_state(tmp_path: Path) -> None:
    states = load_states(write(tmp_path / "one", "aabba"))
    assert [state.snapshot.after for state in states] == ["pipeline-start", "cse", "hide"]


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        ("aabbb", "aaddd", "diverge at `cse` (pipeline `fusion`), which makes another module for each; the first"),
        (
            "aaaab",
            "aaaaa",
            "diverge at `hide` (pipeline `schedule`), which changes the module for `h100` alone; the first",
        ),
        (
            "aaaaa",
            "aaaba",
            "diverge at the work before pipeline `schedule`, which changes the module for `a100` alone",
        ),
        (
            "abbbb",
            "aadaa",
            "diverge after the work before pipeline `pre`: the next change is by `priority-fusion` (pipeline `fusion`) for"
            " `h100` and by `cse` (pipeline `fusion`) for `a100`; the first",
        ),
        (
            "caaaa",
            "aaaaa",
            "diverge at the work before pipeline `pre`, which makes another module for each; the first",
        ),
    ],
    ids=["one pass", "the one alone", "the other alone", "two passes", "from the start"],
)
def test_the_pass_at_which_two_compiles_diverge_is_named(one: str, other: str, sentence: str, tmp_path: Path) -> None:
    divergence = find_divergence(*(load_states(write(tmp_path / side, side)) for side in (one, other)))
    assert divergence is not None
    assert describe_divergence(divergence, "h100", "a100").startswith(f"`h100` and `a100` {sentence}")


def test_the_first_instruction_that_differs_is_named_for_each(tmp_path: Path) -> None:
    divergence = find_divergence(
        load_states(write(tmp_path / "one", "aabbb")), load_states(write(tmp_path / "other", "aaddd"))
    )
    assert divergence is not None
    assert [describe_instruction(instruction) for instruction in divergence.find_difference()] == [
        "`%negate.2 = f32[4] negate(%parameter.1)`",
        "`%sine.2 = f32[4] sine(%parameter.1)`",
    ]


@pytest.mark.parametrize("name", ["bitcast", "opt-barrier", "domain", "add-dependency"])
def test_instructions_that_execute_nothing_do_not_count_as_a_divergence(name: str, tmp_path: Path) -> None:
    def write_scheduled(folder: Path, order: tuple[int, ...]) -> tuple[Path, ...]:
        folder.mkdir()
        builder = Builder()
        entry = builder.computation("entry")
        x = builder.add(entry, "parameter")
        value, view = builder.add(entry, "negate", [x]), builder.add(entry, name, [x])
        other = builder.add(entry, "sine", [view])
        result = builder.add(entry, "add", [value, other])
        members = (x, value, view, other, result)
        builder.schedule(entry, *(members[place] for place in order))
        path = folder / NAMES[4]
        path.write_bytes(builder.bytes())
        return (path,)

    one = load_states(write_scheduled(tmp_path / "one", (0, 1, 2, 3, 4)))
    moved = load_states(write_scheduled(tmp_path / "moved", (0, 2, 3, 1, 4)))
    divergence = find_divergence(one, moved)
    assert divergence is not None
    assert [one.opcode if one else "" for one in divergence.find_difference()] == ["negate", "sine"]
    harmless = find_divergence(one, load_states(write_scheduled(tmp_path / "harmless", (0, 2, 1, 3, 4))))
    assert harmless is not None
    assert [one.opcode if one else "" for one in harmless.find_difference()] == ["negate", name]


def test_equal_compiles_do_not_diverge_and_a_broken_snapshot_is_an_error(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one", "aabbb"), write(tmp_path / "other", "abb", numbers=(0, 2, 4))
    assert find_divergence(load_states(one), load_states(other)) is None
    one[2].write_bytes(b"no module")
    with pytest.raises(ArtifactError, match=r"0002\.fusion"):
        load_states(one)
