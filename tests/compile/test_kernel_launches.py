"""From a payload in the HLO back to the kernel and its arguments."""

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.call_records import KernelLaunch, Scalar, parse_kernel_launches, render_kernel_launch
from ligerdiag.codec import FieldError
from ligerdiag.compile.lowering.kernel_launches import record_launches
from ligerdiag.hlo.parse import load_hlo

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def launched(compile_selected):
    return compile_selected("launched.py")


def launches_of(results, case_id: str) -> tuple[KernelLaunch, ...]:
    assert results[case_id].artifact is not None, results[case_id].error
    return results[case_id].artifact.kernel_launches


def payloads_in(artifact: Artifact, path: Path) -> list[str]:
    module, _ = load_hlo(path)
    calls = [i.proto for c in module.computations.values() for i in c.instructions if i.opcode == "custom-call"]
    return [sha256(call.backend_config).hexdigest() for call in calls if "triton" in call.custom_call_target]


def test_the_payload_is_the_same_bytes_in_every_module(launched) -> None:
    for case_id in ("scale", "onto_itself", "heuristic", "settled"):
        artifact = launched[case_id].artifact
        for path in (artifact.as_written, artifact.unoptimized, artifact.optimized):
            assert payloads_in(artifact, path) == [launch.payload for launch in artifact.kernel_launches]


def test_a_launch_has_its_grid_scalars_constants_and_zeroed_outputs(launched) -> None:
    (launch,) = launches_of(launched, "scale")
    assert launch.trouble == ""
    assert (launch.kernel, launch.qualname) == ("scale_kernel", "scale_kernel")
    assert launch.file == str(PROGRAMS / "launched.py")
    assert launch.grid == (4, 1, 1)
    assert (launch.operands, launch.outputs) == (1, 2)
    assert launch.scalars == (
        Scalar(position=1, type="fp64", value=0.5),
        Scalar(position=2, type="i32", value=128),
    )
    assert launch.pointers == (0, 3, 4)
    assert launch.constants == {
        "nothing": None, "BLOCK": 32, "TYPE": {"dtype": "fp32"}, "NAME": "scale",
    }  # fmt: skip
    assert launch.zeroed == (1,)
    assert launch.aliases == {}


def test_a_declared_alias_is_recorded(launched) -> None:
    (launch,) = launches_of(launched, "onto_itself")
    assert launch.aliases == {0: 0}
    assert launch.grid == (8, 1, 1)


def test_heuristics_are_resolved(launched) -> None:
    (launch,) = launches_of(launched, "heuristic")
    assert launch.trouble == ""
    assert launch.constants == {"width": 16, "BLOCK": 16}


def test_an_autotuned_kernel_of_one_configuration_is_settled(launched) -> None:
    (launch,) = launches_of(launched, "settled")
    assert launch.trouble == ""
    assert launch.constants == {"BLOCK": 16}


def test_several_configurations_are_trouble(launched) -> None:
    (launch,) = launches_of(launched, "tuned")
    assert launch.kernel == "tuned_kernel"
    assert launch.trouble == "the kernel is autotuned: 2 configurations"
    assert launch.payload in payloads_in(launched["tuned"].artifact, launched["tuned"].artifact.optimized)


def test_a_kernel_inside_a_function_is_trouble(launched) -> None:
    (launch,) = launches_of(launched, "local")
    assert launch.trouble == "the kernel is defined inside a function: `make_local_kernel.<locals>.local_kernel`"


def test_two_calls_with_one_payload_are_one_launch(launched) -> None:
    (launch,) = launches_of(launched, "twice")
    artifact = launched["twice"].artifact
    assert payloads_in(artifact, artifact.unoptimized) == [launch.payload] * 2


def test_a_call_without_outputs_has_a_launch(launched) -> None:
    launches = {launch.kernel: launch for launch in launches_of(launched, "effect")}
    artifact = launched["effect"].artifact
    assert launches["negate_kernel"].outputs == 0
    assert {launch.payload for launch in launches.values()} >= set(payloads_in(artifact, artifact.unoptimized))


def test_a_launch_comes_back_from_json_as_it_was() -> None:
    launch = KernelLaunch(
        payload="ab", kernel="k", module="m", file="/m.py", qualname="C.k", source="cd", grid=(1, 2, 3), operands=2,
        outputs=1, scalars=(Scalar(position=0, type="B", value=True), Scalar(position=2, type="fp64", value=-0.0)),
        pointers=(1, 3, None),
        constants={"N": None, "S": "x", "F": float("-inf"), "T": {"dtype": "bf16"}, "B": False, "I": 2**40},
        zeroed=(0,), aliases={1: 0}, trouble="",
    )  # fmt: skip
    (back,) = parse_kernel_launches([json.loads(json.dumps(render_kernel_launch(launch), allow_nan=False))])
    assert back == launch


def test_a_launch_with_a_list_for_a_constant_is_refused() -> None:
    (record,) = [dict(render_kernel_launch(troubled()))]
    record["constants"] = {"N": [1]}
    with pytest.raises(FieldError, match="`N`"):
        parse_kernel_launches([record])


def test_a_rule_with_other_parameters_is_trouble_and_no_crash(monkeypatch) -> None:
    mlir = pytest.importorskip("jax.interpreters.mlir")
    extend = pytest.importorskip("jax.extend")
    primitive = extend.core.Primitive("triton_kernel_call_of_another_generation")
    mlir.register_lowering(primitive, lambda ctx, *operands, **params: ["lowered"], platform="cuda")
    library = SimpleNamespace(triton_kernel_call_p=primitive)
    with record_launches(library) as launches:
        rule = mlir._platform_specific_lowerings["cuda"][primitive].rule
        assert rule(SimpleNamespace(avals_in=()), metaparams={}, fn=troubled) == ["lowered"]
    (launch,) = launches.sorted()
    assert launch.kernel == "troubled"
    assert launch.trouble


def troubled() -> KernelLaunch:
    return KernelLaunch(
        payload="", kernel="k", module="", file="", qualname="", source="", grid=(0, 0, 0), operands=0, outputs=0,
        scalars=(), pointers=(), constants={}, zeroed=(), aliases={}, trouble="lost",
    )  # fmt: skip
