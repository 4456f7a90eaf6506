"""Names of dump files in the forms that XLA versions use."""

import pytest

from ligerdiag.dumps.find import Role, parse_dump_name


@pytest.mark.parametrize(
    ("name", "number", "module", "role", "target"),
    [
        ("module_0003.jit_step.before_optimizations.hlo.pb", "module_0003", "jit_step", Role.PROGRAM, ""),
        ("module_0003.before_optimizations.txt", "module_0003", "", Role.PROGRAM, ""),
        ("module_0003.IrToHlo.3979.before_optimizations.txt", "module_0003", "IrToHlo.3979", Role.PROGRAM, ""),
        (
            "module_0003.IrToHlo.3979.sm_9.0_gpu_after_optimizations.txt",
            "module_0003",
            "IrToHlo.3979",
            Role.OPTIMIZED,
            "sm_9.0",
        ),
        ("module_0003.IrToHlo.3979.0042.fusion.after_x.before_y.txt", "module_0003", "", Role.SNAPSHOT, ""),
        (
            "module_0003.jit_step.sm_9.0a_gpu_after_optimizations.hlo.pb",
            "module_0003",
            "jit_step",
            Role.OPTIMIZED,
            "sm_9.0a",
        ),
        (
            "module_0003.jit_step.sm_8.0_gpu_after_optimizations-buffer-assignment.txt",
            "module_0003",
            "jit_step",
            Role.BUFFERS,
            "sm_8.0",
        ),
        (
            "module_0003.jit_step.sm_8.0_gpu_after_optimizations-buffer-assignment.hlo.pb",
            "module_0003",
            "jit_step",
            Role.OTHER,
            "sm_8.0",
        ),
        (
            "module_12345.jit_f.gfx90a_gpu_after_optimizations.txt",
            "module_12345",
            "jit_f",
            Role.OPTIMIZED,
            "gfx90a",
        ),
        (
            "module_0000.jit__lambda_.5.gpu_after_optimizations.txt",
            "module_0000",
            "jit__lambda_.5",
            Role.OPTIMIZED,
            "gpu",
        ),
        ("module_0000.cpu_after_optimizations.hlo.pb.gz", "module_0000", "", Role.OPTIMIZED, "cpu"),
        ("module_0000.a.b.after_optimizations.txt", "module_0000", "a.b", Role.OPTIMIZED, ""),
        ("1795294956857135.module_7947.jit_f.before_optimizations.hlo.pb.gz", "module_7947", "jit_f", Role.PROGRAM, ""),
        ("module_0001.jit_f.0042.fusion.after_before_optimizations", "module_0001", "", Role.OTHER, ""),
        (
            "module_0001.jit_f.0042.fusion.after_x.before_after_optimizations.hlo.pb",
            "module_0001",
            "",
            Role.SNAPSHOT,
            "",
        ),
        ("module_0001.jit_f.0042.fusion.after_x.before_optimizations.hlo.pb", "module_0001", "", Role.SNAPSHOT, ""),
        ("module_0001.jit_f.0042.fusion.after_a.before_b.hlo.pb", "module_0001", "", Role.SNAPSHOT, ""),
        (
            "module_0001.jit_f.sm_9.0a_gpu_after_optimizations-live-range.txt",
            "module_0001",
            "jit_f",
            Role.OTHER,
            "sm_9.0a",
        ),
        ("module_0001.jit_f.before_config_assignment.txt", "module_0001", "", Role.OTHER, ""),
        ("module_0001.jit_f.thunk_sequence.txt", "module_0001", "", Role.OTHER, ""),
        ("module_0001.jit_f.debug_options", "module_0001", "", Role.OTHER, ""),
    ],
)
def test_a_name_gives_module_role_and_target(name: str, number: str, module: str, role: Role, target: str) -> None:
    parsed = parse_dump_name(name)
    assert parsed is not None
    assert (parsed.number, parsed.module, parsed.role) == (number, module, role)
    assert parsed.target == target
    assert parsed.stamp == ("1795294956857135" if name.startswith("1") else "")
    assert parsed.is_proto == (".pb" in name)


@pytest.mark.parametrize("name", ["step.hlo.pb", "module.txt", "manifest.json", "module_0001", "a.module_1.x.txt", ""])
def test_other_names_are_not_xla_s(name: str) -> None:
    assert parse_dump_name(name) is None
