"""Judges random differentiated programs in four ways:

    python -m tests.property.judge_differentiated FIRST COUNT [--out FILE] [--device]

static      the verdict on the schedule
replay      the replayed schedule, compared with the intended program as replay computes it
eager       the intended program as replay computes it, compared with Python's own order (`tests.witness`)
device      with --device: what this machine's GPU computes, compared with the replay of its own artifact

Prints each program on which the judges disagree, and a tally at the end; appends a line of JSON for each program to FILE.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

from ligerdiag import api
from ligerdiag.model.findings import Replay, ReplayState
from ligerdiag.model.report import CaseReport
from ligerdiag.report.agreement import find_unreached
from tests.witness.contradictions import is_alike, list_contradictions
from tests.witness.process import open_interpreting_process

BATCH = 50
"""Programs compiled by one pool of workers; a run that is interrupted keeps the batches before."""
PER_WITNESS = 500
"""Programs before the witness restarts: JAX forgets nothing that it has compiled."""
MODULE = "tests.property.differentiated_cases"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--target", default="h200")
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    started = perf_counter()
    for first in range(options.first, options.first + options.count, PER_WITNESS):
        some = min(PER_WITNESS, options.first + options.count - first)
        with open_interpreting_process() as witness:
            rows = judge(
                range(first, first + some), witness, target=options.target, jobs=options.jobs, device=options.device
            )
            for row in rows:
                count(row, tally)
                if row["wrong"]:
                    print(f"seed {row['seed']} ({row['about']}): {'; '.join(row['wrong'])}", flush=True)
                if options.out is not None:
                    with options.out.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(row) + "\n")
    seconds = perf_counter() - started
    print(
        f"seeds {options.first}..{options.first + options.count - 1} in {seconds:.0f} s: {dict(sorted(tally.items()))}"
    )


def judge(
    seeds: Sequence[int], witness: ProcessPoolExecutor, *, target: str = "h200", **options: Any
) -> Iterator[dict[str, Any]]:
    """Yields a row for each program, batch by batch; `options` are further ones of `api.CheckOptions`."""
    for start in range(0, len(seeds), BATCH):
        selector = f"{MODULE}:SEEDS_{'_'.join(map(str, seeds[start : start + BATCH]))}"
        report = api.check(
            api.CheckOptions(selectors=(selector,), targets=(target,), replay=options.get("device", False), **options)
        )
        if report.interrupted:
            sys.exit(130)
        for case in report.cases:
            yield judge_case(case, witness)


def judge_case(case: CaseReport, witness: ProcessPoolExecutor) -> dict[str, Any]:
    """Returns what each judge says about one program; `wrong` names every contradiction."""
    seed = int(case.id.partition("[")[2].rstrip("]"))
    row: dict[str, Any] = {"seed": seed, "about": case.about, "static": {}, "wrong": []}
    if case.error:
        return row | {"wrong": [f"error: {case.error}"]}
    static = {name: verdict.value for name, verdict in case.outputs.items()}
    try:
        found = witness.submit(compare_seed, seed, case.artifact).result()
    except Exception as fault:
        return row | {"static": static, "wrong": [f"witness: {type(fault).__name__}: {fault}"[:300]]}
    wrong = [f"{name}: intended differs from eager by {error:.2g}" for name, error in found["disagreements"].items()]
    if found["not_covered"]:
        wrong.append(f"not covered: {found['not_covered']}")
    replay = Replay(state=ReplayState.DONE, unreached=tuple(found.pop("unreached")))
    for name in find_unreached(case.findings, replay):
        for numbers in (found["replayed"], found["attributions"]):
            if numbers.get(name) == "fresh":
                numbers[name] = "not reached"
    for who, numbers in (("replay", found["replayed"]), ("eager", found["attributions"])):
        wrong += list_contradictions(static, numbers, who)
    run, device = case.device, {}
    if run is not None:
        if run.died:  # otherwise the machine has too few GPUs for it
            wrong.append(f"device: {run.error}")
        for name, output in run.outputs.items():
            device[name] = "alike" if is_alike(output.attribution, output) else output.attribution.value
        wrong += list_contradictions(run.verdicts, device, "device")
        row |= {"device_verdicts": dict(run.verdicts), "device_error": run.error}
    return row | {"static": static, "device": device, "wrong": wrong} | found


def compare_seed(seed: int, directory: str) -> dict[str, Any]:
    """Compares replay and witness; to be called in the witness's process."""
    from dataclasses import asdict

    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.replay.ops.scope import NotCoveredError
    from tests.property.random_differentiated import make_case
    from tests.witness.comparing import Comparison, compare_case

    try:
        found = compare_case(make_case(seed), load_artifact(Path(directory)))
    except NotCoveredError as error:
        found = Comparison(not_covered=f"replay: {error}")
    return asdict(found) | {"disagreements": found.disagreements, "overwritten_saves": found.overwritten_saves}


def count(row: Mapping[str, Any], tally: Counter[str]) -> None:
    """Adds a row to the tally: verdicts by what the numbers say, and contradictions by kind."""
    tally["programs"] += 1
    tally["programs with a contradiction"] += bool(row["wrong"])
    tally["errors"] += not row["static"]
    tally["not covered"] += bool(row.get("not_covered"))
    tally["outputs where intended differs from eager"] += len(row.get("disagreements", ()))
    tally["outputs on overwritten saves"] += len(row.get("overwritten_saves", ()))
    for name, verdict in row["static"].items():
        if name in row.get("attributions", {}):
            tally[f"static {verdict}, by eager {row['attributions'][name]}"] += 1
    for name, attribution in row.get("device", {}).items():
        tally[f"static {row['device_verdicts'].get(name)}, by the device {attribution}"] += 1
    tally["not run on the device"] += bool(row.get("device_error"))


if __name__ == "__main__":
    main()
