"""`ligerdiag reduce` on a dump: smaller modules of which `inspect` says the same, and which XLA's parser reads."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.ending import Ending, RunEnded
from ligerdiag.errors import InputError
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.reduce.dump_reduction import write_modules
from ligerdiag.reduce.hlo_edits import (
    DumpedModules,
    drop_parameters,
    find_entry,
    keep_outputs,
    list_removable,
    measure,
    remove_instructions,
)
from tests.dumps.conftest import Inspect, Pick, only, outputs

PROTOS = ("after_optimizations.hlo.pb", "before_optimizations.hlo.pb")


def read_modules(folder: Path, *, alone: bool = False) -> DumpedModules:
    files = only(folder)
    optimized = HloProto.FromString(files.optimized[0].read_bytes())
    program = None if alone else HloProto.FromString(files.program[0].read_bytes())
    return DumpedModules(optimized=optimized, program=program)


def name_parameters(modules: DumpedModules) -> list[list[tuple[int, str]]]:
    return [
        [
            (one.parameter_number, one.name)
            for one in find_entry(proto.hlo_module).instructions
            if one.opcode == "parameter"
        ]
        for proto in modules.protos
    ]


@pytest.mark.nightly
def test_dropping_outputs_keeps_the_verdicts_of_the_others(dumps: Path, tmp_path: Path, inspect: Inspect) -> None:
    modules, before = read_modules(dumps / "losses"), outputs(inspect(dumps / "losses"))
    for number in (0, len(before) - 1):
        smaller, verdict = keep_outputs(modules, {number}), before[number]
        assert smaller is not None
        assert measure(smaller) < measure(modules)
        folder = tmp_path / str(number)
        write_modules(smaller, only(dumps / "losses"), folder)
        assert outputs(inspect(folder)) == [verdict]
    assert measure(read_modules(dumps / "losses")) == measure(modules)  # no edit has changed the original


def test_instructions_keep_their_order_and_their_bytes(dumps: Path) -> None:
    modules = read_modules(dumps / "losses")
    smaller = keep_outputs(modules, {0})
    assert smaller is not None
    before, after = (one.optimized.hlo_module for one in (modules, smaller))
    order, left = (list(one.schedule.sequences[one.entry_computation_id].instruction_ids) for one in (before, after))
    assert left == [one for one in order if one in left]
    assert {one.id for one in find_entry(after).instructions} == set(left)
    places = [
        {
            one.logical_buffer_id: (allocation.index, one.offset, one.size)
            for allocation in proto.buffer_allocations
            for one in allocation.assigned
        }
        for proto in (modules.optimized.buffer_assignment, smaller.optimized.buffer_assignment)
    ]
    assert 0 < len(places[1]) < len(places[0])
    assert places[1].items() <= places[0].items()


def test_parameters_that_neither_module_reads_are_dropped_from_both(dumps: Path) -> None:
    smaller = keep_outputs(read_modules(dumps / "flce"), {0})
    assert smaller is not None
    fewer = drop_parameters(smaller)
    for modules in (smaller, *([fewer] if fewer else [])):
        optimized, program = name_parameters(modules)
        assert sorted(number for number, _ in optimized) == list(range(len(program)))


def test_a_kernel_s_operand_and_a_program_s_schedule_are_not_cut(dumps: Path) -> None:
    assert list_removable(read_modules(dumps / "losses")) == ()
    alone = read_modules(dumps / "losses", alone=True)
    entry = find_entry(alone.optimized.hlo_module)
    removable = set(list_removable(alone))
    kernels = [one for one in entry.instructions if one.custom_call_target.startswith("triton_kernel_call")]
    assert kernels
    assert not removable & {number for one in kernels for number in (one.id, *one.operand_ids)}
    cut = remove_instructions(alone, removable, by_operand=False)
    assert cut is not None
    assert {one.opcode for one in find_entry(cut.optimized.hlo_module).instructions if one.id in removable} <= {
        "parameter"
    }


def reduce(path: Path, tmp_path: Path, cache: Path, on_line=None):
    options = api.ReduceOptions(selector=str(path), output=tmp_path / "small.py", cache_directory=cache)
    return api.reduce_dump(options, on_line)


def test_a_program_and_its_schedule_are_reduced_together(
    dumps: Path, tmp_path: Path, cache: Path, inspect: Inspect
) -> None:
    (case,) = inspect(dumps / "losses").cases
    reduced, ending = reduce(dumps / "losses", tmp_path, cache)
    assert ending is None
    assert reduced.symptom.rule in {one.rule for one in case.findings}
    assert (reduced.after.outputs, reduced.after < reduced.before) == (1, True)
    optimized, program = reduced.texts
    assert "is_scheduled=true" in optimized.splitlines()[0]
    assert "is_scheduled=true" not in program.splitlines()[0]
    again, _ = reduce(dumps / "losses", tmp_path, cache)
    assert again.texts == reduced.texts
    (tmp_path / "small.hlo").write_text(optimized)
    assert inspect(tmp_path / "small.hlo").cases[0].findings


def test_a_schedule_alone_is_cut_down_to_its_kernel(pick: Pick, tmp_path: Path, cache: Path) -> None:
    (file,) = pick("losses-untagged", "after_optimizations.txt").iterdir()
    lines: list[str] = []
    reduced, ending = reduce(file, tmp_path, cache, lines.append)
    assert ending is None
    assert reduced.symptom.rule == "LD006"
    assert reduced.after.instructions < reduced.before.instructions
    assert reduced.after.computations < reduced.before.computations
    assert "custom-call(" in reduced.texts[0]
    assert lines[0].startswith("start: ")


@pytest.mark.nightly
def test_an_ended_reduction_of_a_dump_continues(pick: Pick, tmp_path: Path, cache: Path) -> None:
    (file,) = pick("losses-untagged", "after_optimizations.txt").iterdir()
    seen: list[str] = []

    def end_after_the_first_step(line: str) -> None:
        seen.append(line)
        if len(seen) == 2:
            raise RunEnded(Ending.INTERRUPT)

    first, ending = reduce(file, tmp_path, cache, end_after_the_first_step)
    assert ending is Ending.INTERRUPT
    known = (tmp_path / "small.steps").read_text()
    whole, ending = reduce(file, tmp_path, cache)
    assert ending is None
    assert whole.after < first.after
    assert (tmp_path / "small.steps").read_text().startswith(known)


def test_a_module_s_name_is_no_path(dumps: Path, tmp_path: Path) -> None:
    modules = read_modules(dumps / "losses", alone=True)
    modules.optimized.hlo_module.name = "../../step"
    files = write_modules(modules, only(dumps / "losses"), tmp_path / "inner" / "most")
    assert {path.parent for path in files.optimized} == {tmp_path / "inner" / "most"}


def test_a_program_as_text_is_refused(pick: Pick, tmp_path: Path, cache: Path) -> None:
    folder = pick("losses", "after_optimizations.hlo.pb", "before_optimizations.txt")
    with pytest.raises(InputError, match=r"before_optimizations\.txt` is text, which has lost the order"):
        reduce(folder, tmp_path, cache)
