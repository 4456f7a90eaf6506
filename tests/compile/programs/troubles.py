"""Cases that go wrong, each in its own way, and one that does not."""

import os
import sys
import time

from ligerdiag.model.case import Arg, Case

X = Arg(shape=(12, 8))


def abort(x):
    print("about to abort", file=sys.stderr, flush=True)
    os.abort()


def hang(x):
    print("about to hang", flush=True)
    time.sleep(600)
    return x


def fail(x):
    return {}["missing"]


def fail_twice(x):
    raise ExceptionGroup("two things", [ValueError("the first"), KeyError("the second")])


def run_out_of_memory(x):
    bytearray(1 << 46)
    return x


def keep(x):
    return x + 1


CASES = (
    *(Case(name=f.__name__, function=f, args=(X,)) for f in (abort, hang, fail, fail_twice, run_out_of_memory, keep)),
    Case(name="axis", function=keep, args=(Arg(shape=(12, 8), partition=("y",)),), mesh={"x": 2}),
    Case(name="indivisible", function=keep, args=(Arg(shape=(12, 8), partition=("x",)),), mesh={"x": 8}),
    Case(name="devices", function=keep, args=(X,), mesh={"x": 1024}),
    Case(name="dtype", function=keep, args=(Arg(shape=(12, 8), dtype="float31"),)),
    Case(name="double", function=keep, args=(Arg(shape=(12, 8), dtype="float64"),)),
    Case(name="text", function=keep, args=("fast",)),
    Case(name="mesh", function=keep, args=(Arg(shape=(12, 8), partition=(None, ("x", "y"))),), mesh={"x": 2, "y": 4}),
)
