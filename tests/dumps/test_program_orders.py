"""The program orders that differ most, and the verdicts on which they agree."""

from ligerdiag.dumps.text_details import make_program_orders
from ligerdiag.hlo.parse import parse_module
from ligerdiag.hlo.xla_pb2 import HloModuleProto
from ligerdiag.inspection.coverage import UNKNOWN_ORDER, join_inspections
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.model.report import Coverage, Inspection

NAMES = ("p", "kernel.2", "free", "before", "kernel.1", "after", "root")
OPERANDS = {"kernel.1": ["before"], "kernel.2": ["p"], "before": ["p"], "free": ["p"], "after": ["kernel.1"]}


def make_module(names: tuple[str, ...] = NAMES) -> HloModuleProto:
    """Makes a module: a kernel needs `before`, `after` needs a kernel, and `free` only reads their operands."""
    module = HloModuleProto(name="m", entry_computation_id=1)
    computation = module.computations.add(name="e", id=1, root_id=len(names))
    numbers = {name: number for number, name in enumerate(names, start=1)}
    for name, number in numbers.items():
        kernel = name.startswith(("kernel", "other"))
        instruction = computation.instructions.add(name=name, id=number, opcode="custom-call" if kernel else "add")
        wanted = [other for other in names if other != "root"] if name == "root" else OPERANDS.get(name, [])
        instruction.operand_ids.extend(numbers[other] for other in wanted)
    return module


def list_by_id(module: HloModuleProto) -> list[str]:
    parse_module(module)
    return [i.name for i in sorted(module.computations[0].instructions, key=lambda i: i.id)]


def test_kernels_come_as_early_and_as_late_as_possible_in_the_order_of_their_counters() -> None:
    early, late = make_program_orders(make_module())
    assert list_by_id(early) == ["p", "before", "kernel.1", "kernel.2", "free", "after", "root"]
    assert list_by_id(late) == ["p", "free", "before", "kernel.1", "after", "kernel.2", "root"]


def test_kernels_of_two_kinds_may_come_in_either_order() -> None:
    names = tuple(name.replace("kernel.2", "other.1") for name in NAMES)
    orders = [list_by_id(module) for module in make_program_orders(make_module(names))]
    assert len(orders) == 4
    assert {order.index("kernel.1") < order.index("other.1") for order in orders} == {True, False}


def test_a_call_of_a_computation_with_a_kernel_is_moved_like_a_kernel() -> None:
    module = HloModuleProto(name="m", entry_computation_id=2)
    inner = module.computations.add(name="c", id=1, root_id=1)
    inner.instructions.add(name="kernel", id=1, opcode="custom-call")
    entry = module.computations.add(name="e", id=2, root_id=4)
    entry.instructions.add(name="p", id=2, opcode="parameter")
    entry.instructions.add(name="read", id=3, opcode="add", operand_ids=[2])
    entry.instructions.add(name="loop", id=4, opcode="call", operand_ids=[], called_computation_ids=[1])
    orders = [
        [i.name for i in sorted(m.computations[1].instructions, key=lambda i: i.id)]
        for m in make_program_orders(module)
    ]
    assert orders == [["loop", "p", "read"], ["p", "read", "loop"]]


def test_a_program_without_kernels_has_one_order() -> None:
    module = make_module(("p", "root"))
    assert make_program_orders(module) == (module,)


def test_an_annotation_is_not_a_kernel() -> None:
    module = make_module()
    for instruction in module.computations[0].instructions:
        if instruction.opcode == "custom-call":
            instruction.custom_call_target = "Sharding"
    assert make_program_orders(module) == (module,)


def test_control_predecessors_of_a_kernel_stay_before_it() -> None:
    module = make_module()
    instructions = {i.name: i for i in module.computations[0].instructions}
    instructions["kernel.1"].control_predecessor_ids.append(instructions["free"].id)
    for order in (list_by_id(ordered) for ordered in make_program_orders(module)):
        assert order.index("free") < order.index("kernel.1")
    instructions["after"].control_predecessor_ids.append(instructions["kernel.2"].id)
    for order in (list_by_id(ordered) for ordered in make_program_orders(module)):
        assert order.index("kernel.2") < order.index("after")


def inspect_as(verdict: Verdict, *rules: str) -> Inspection:
    findings = tuple(Finding(rule=rule, severity=Severity.ERROR, message=rule) for rule in rules)
    return Inspection(outputs={"a": verdict, "b": Verdict.FRESH}, findings=findings, coverage=Coverage())


def test_only_verdicts_common_to_all_orders_are_given() -> None:
    joined = join_inspections([inspect_as(Verdict.STALE, "LD001", "LD006"), inspect_as(Verdict.FRESH, "LD006")])
    assert joined.outputs == {"a": Verdict.UNKNOWN, "b": Verdict.FRESH}
    assert [finding.rule for finding in joined.findings] == ["LD006"]
    assert joined.coverage.not_covered == (UNKNOWN_ORDER,)


def test_if_all_orders_agree_no_verdict_is_missing() -> None:
    same = inspect_as(Verdict.STALE, "LD001")
    assert join_inspections([same, inspect_as(Verdict.STALE, "LD001")]) is same
