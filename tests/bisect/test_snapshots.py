"""XLA's names of snapshots, in the order of their numbers."""

from pathlib import Path

from ligerdiag.bisect.snapshots import CompilerStep, find_step, list_snapshots, parse_snapshot


def name(number: int, text: str, module: str = "module_0012.jit_step") -> Path:
    return Path(f"{module}.{number:04d}.{text}.hlo.pb")


NESTED = (
    name(0, "spmd-partitioner.after_pipeline-start.before_spmd-simplify"),
    name(1, "spmd-partitioner.after_shardy-xla.before_spmd-partitioning"),
    name(2, "spmd-cleanup.after_pipeline-start.before_dce"),
    name(3, "spmd-cleanup.after_dce.before_pipeline-end"),
    name(4, "spmd-partitioner.after_spmd-partitioning.before_pipeline-end"),
    name(5, "optimization.after_pipeline-start.before_x"),
    name(6, "copy-insertion.after_removing_unnecessary_copies"),
)


def step(position: int, paths: tuple[Path, ...] = NESTED) -> CompilerStep:
    return find_step(list_snapshots(paths), position)


def test_the_name_of_a_snapshot_has_the_pipeline_and_passes() -> None:
    found = parse_snapshot(name(3, "reshape_mover_after_x.after_algsimp.before_simplify-sorts"))
    assert found is not None
    assert (found.module, found.number, found.pipeline) == (12, 3, "reshape_mover_after_x")
    assert (found.after, found.before) == ("algsimp", "simplify-sorts")


def test_a_file_that_is_not_a_step_is_not_a_snapshot() -> None:
    assert parse_snapshot(Path("module_0012.jit_step.after_spmd_partitioner.hlo.pb")) is None


def test_the_program_is_the_module_that_xla_started_last() -> None:
    other = name(7, "fusion.after_cse.before_dce", module="module_0002.gemm.with.dots")
    assert [one.number for one in list_snapshots((other, NESTED[1], NESTED[0]))] == [0, 1]
    assert parse_snapshot(other) is not None


def test_a_file_after_a_pass_names_the_pass() -> None:
    assert step(1) == CompilerStep(name="shardy-xla", pipeline="spmd-partitioner", number=1)


def test_changes_before_a_nested_pipeline_belong_to_the_pass_that_runs_it() -> None:
    assert step(2).label == "spmd-partitioning in spmd-partitioner"


def test_a_change_between_pipelines_belongs_to_no_pass() -> None:
    assert step(5) == CompilerStep(name="", pipeline="optimization", number=5)
    assert step(5).label == "before optimization"


def test_a_restarted_pipeline_does_not_continue_the_first() -> None:
    again = name(6, "spmd-cleanup.after_pipeline-start.before_dce")
    later = name(7, "spmd-cleanup.after_dce.before_pipeline-end")
    open_ = name(3, "spmd-cleanup.after_cse.before_dce")
    assert step(5, (*NESTED[:3], open_, *NESTED[4:6], again, later)).name == ""


def test_the_middle_of_a_pass_names_the_pass_and_its_part() -> None:
    found = step(6)
    assert (found.name, found.part) == ("copy-insertion", "removing_unnecessary_copies")
