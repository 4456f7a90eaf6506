"""The Llama tools compute tables and pictures from records, without compiling or training anything."""

from pathlib import Path
from xml.etree import ElementTree

from kernels.llama.grid import CASES
from kernels.llama.layout import LAYOUTS
from tools.train_llama.__main__ import render_table
from tools.train_llama.picture import render_picture
from tools.train_llama.record import Run, read_runs, write_runs


def make_run(mode: str, seed: int, loss: float) -> Run:
    run = Run(mode=mode, seed=seed, size="tiny", layout="fsdp", devices=2, device="none")
    return run.extend([(4.0, 2.0), (loss, 1.0)])


RUNS = (make_run("plain", 0, 3.0), make_run("plain", 1, 3.25), make_run("trivial", 0, 4.5))


def test_runs_survive_a_round_trip_to_disk(tmp_path: Path) -> None:
    file = tmp_path / "curves.json"
    assert read_runs(file) == ()
    write_runs(file, RUNS)
    assert read_runs(file) == RUNS
    assert list(tmp_path.iterdir()) == [file]


def test_a_mode_is_compared_with_plain_jax_and_the_noise_of_its_seeds() -> None:
    table = render_table(RUNS)
    assert "| fsdp-tiny-2-trivial-0 | none | 2 | 4.0000 | 4.2500 | +0.7500 |" in table
    assert "within 0.1250 of each other" in table


def test_a_diverging_curve_is_drawn_up_to_its_last_finite_point() -> None:
    lost = make_run("hidden", 0, float("nan"))
    root = ElementTree.fromstring(render_picture((*RUNS, lost)))
    lines = [one for one in root.iter() if one.tag.endswith("polyline")]
    assert len(lines) == 8
    assert "nan" not in "".join(line.attrib["points"] for line in lines)


def test_the_grid_has_every_mode_of_every_layout_for_each_number_of_gpus() -> None:
    ids = {case.id for case in CASES}
    assert len(ids) == len(CASES) == (1 + 3 + 4 + 4 + 4) * 9
    assert {"llama[fsdp+tp-70B-512-shard_map]", "llama[fsdp-8B-64-trivial-seed]"} <= ids


def test_a_mesh_splits_all_devices_over_two_axes() -> None:
    assert LAYOUTS["fsdp"].split_devices(512) == {"data": 512, "model": 1}
    assert LAYOUTS["tp"].split_devices(2) == {"data": 1, "model": 2}
    assert LAYOUTS["fsdp+tp"].split_devices(8) == {"data": 2, "model": 4}
    assert LAYOUTS["fsdp+tp"].split_devices(512) == {"data": 64, "model": 8}
