"""Mutates a program's metadata: names, tags, places in the source, the order of a list.

No mutation changes the instructions that run. An analysis that loses a tag may know less afterwards, but a verdict may
not improve.
"""

import re
from random import Random

from ligerdiag.hlo.xla_pb2 import HloProto
from tools.claims.mutation import Claim, mutation
from tools.claims.pairs import Pair, choose_some, list_instructions

_TAG = re.compile(r"#ld\d+")
_LIKE_TAGS = ("#ld1", "#ld7", "/#ld2/x", "layer#ld3/", "#ld999999", "#ld9999999999999999999999", "#ld")
_SCOPES = ("a;b", ";", "block#ld3", "#ld1", "x;y#ld2", "a;b#ld4;c")


@mutation(Claim.NOT_BETTER)
def rename_instructions(pair: Pair, random: Random) -> bool:
    """Gives instructions new names, which do not show the old ones."""
    for proto in pair.choose_sides(random):
        names: dict[str, str] = {}
        for number, one in enumerate(list_instructions(proto)):
            names[one.name] = one.name = f"{random.choice(('x', 'fusion', 'copy', 'add'))}.{number}"
        for buffer in proto.buffer_assignment.logical_buffers:
            buffer.defined_at.instruction_name = names.get(buffer.defined_at.instruction_name, "")
    return True


@mutation(Claim.NOT_BETTER)
def renumber_instructions(pair: Pair, random: Random) -> bool:
    """Gives instructions other ids in the same order."""
    step, start = random.choice((1, 3, 1000)), random.choice((1, 77, 1 << 33))
    for proto in pair.protos:
        instructions = list_instructions(proto)
        ids = {one: start + step * rank for rank, one in enumerate(sorted(one.id for one in instructions))}
        for one in instructions:
            one.id = ids[one.id]
            one.operand_ids[:] = [ids[operand] for operand in one.operand_ids]
            one.control_predecessor_ids[:] = [ids[before] for before in one.control_predecessor_ids]
        for computation in proto.hlo_module.computations:
            computation.root_id = ids[computation.root_id]
        for sequence in proto.hlo_module.schedule.sequences.values():
            sequence.instruction_ids[:] = [ids[one] for one in sequence.instruction_ids]
        for buffer in proto.buffer_assignment.logical_buffers:
            buffer.defined_at.instruction_id = ids.get(buffer.defined_at.instruction_id, 0)
    return True


@mutation(Claim.NOT_BETTER, weight=4)
def drop_op_names(pair: Pair, random: Random) -> bool:
    """Removes the framework name of some instructions, and the tag in it."""
    for proto in pair.choose_sides(random):
        for one in choose_some(random, list_instructions(proto)):
            one.metadata.op_name = ""
    return True


@mutation(Claim.NOT_BETTER, weight=2)
def drop_frames(pair: Pair, random: Random) -> bool:
    """Removes the place in the source of some instructions."""
    for proto in pair.choose_sides(random):
        for one in choose_some(random, list_instructions(proto)):
            one.metadata.stack_frame_id = 0
    return True


@mutation(Claim.NOT_BETTER, weight=4)
def strip_tags(pair: Pair, random: Random) -> bool:
    """Removes only the tag of some instructions."""
    tagged = False
    for proto in pair.choose_sides(random):
        own = [one for one in list_instructions(proto) if _TAG.search(one.metadata.op_name)]
        for one in choose_some(random, own) if own else ():
            one.metadata.op_name = _TAG.sub("", one.metadata.op_name)
            tagged = True
    return tagged


@mutation(Claim.NOT_BETTER, weight=6)
def add_likeness_of_tag(pair: Pair, random: Random) -> bool:
    """Makes some names end as if they had a tag."""
    for proto in pair.choose_sides(random):
        text = random.choice(_LIKE_TAGS)
        for one in choose_some(random, list_instructions(proto)):
            one.metadata.op_name += text
    return True


@mutation(Claim.NOT_BETTER, weight=4)
def add_scope(pair: Pair, random: Random) -> bool:
    """Adds to all names a scope of the author's that is spelled like a joint or a tag."""
    scope = random.choice(_SCOPES)
    for proto in pair.choose_sides(random):
        for one in list_instructions(proto):
            head, slash, rest = one.metadata.op_name.partition("/")
            if slash:
                one.metadata.op_name = f"{head}/{scope}/{rest}"
    return True


@mutation(Claim.NOT_BETTER, weight=4)
def join_name(pair: Pair, random: Random) -> bool:
    """Puts another instruction's name before some names: a tag in it belongs to the other one."""
    for proto in pair.choose_sides(random):
        instructions = list_instructions(proto)
        for one in choose_some(random, instructions):
            one.metadata.op_name = f"{random.choice(instructions).metadata.op_name};{one.metadata.op_name}"
    return True


@mutation(Claim.NOT_BETTER, weight=4)
def exchange_names(pair: Pair, random: Random) -> bool:
    """Exchanges the framework names of two instructions or of some pairs, at times with their places in the source."""
    changed, whole = False, random.random() < 0.5
    for proto in pair.choose_sides(random):
        named = [one for one in list_instructions(proto) if one.metadata.op_name]
        if not named:
            continue
        opcode = random.choice(named).opcode
        alike = [one for one in named if one.opcode == opcode] if random.random() < 0.5 else named
        for one in choose_some(random, alike):
            other = random.choice(alike)
            changed = changed or one.metadata.op_name != other.metadata.op_name
            if whole:
                kept = one.metadata.SerializeToString()
                one.metadata.CopyFrom(other.metadata)
                other.metadata.ParseFromString(kept)
            else:
                one.metadata.op_name, other.metadata.op_name = other.metadata.op_name, one.metadata.op_name
    return changed


@mutation(Claim.NOT_BETTER, weight=2)
def repeat_frame(pair: Pair, random: Random) -> bool:
    """Gives many instructions the same line, as in a helper that is called often."""
    for proto in pair.choose_sides(random):
        instructions = list_instructions(proto)
        frame = random.choice(instructions).metadata.stack_frame_id
        for one in choose_some(random, instructions):
            one.metadata.stack_frame_id = frame
    return True


@mutation(Claim.NOT_BETTER)
def reorder_list(pair: Pair, random: Random) -> bool:
    """Lists the instructions of the optimized module in another order, operands first; the schedule still gives the
    order of execution.
    """
    for computation in pair.optimized.hlo_module.computations:
        listed = {one.id: one for one in computation.instructions}
        waiting = {one.id: set(one.operand_ids) for one in computation.instructions}
        order: list[int] = []
        while waiting:
            ready = [key for key, operands in waiting.items() if not operands]
            chosen = random.choice(ready)
            order.append(chosen)
            del waiting[chosen]
            for operands in waiting.values():
                operands.discard(chosen)
        copies = HloProto()
        made = copies.hlo_module.computations.add()
        for key in order:
            made.instructions.add().CopyFrom(listed[key])
        del computation.instructions[:]
        computation.instructions.extend(made.instructions)
    return True
