"""A store on an S3 server: the same table as in a folder, a sweep that continues, and an error without a server."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ligerdiag.errors import InputError
from ligerdiag.sweep.campaign import SweepOptions, SweepReport, SweepRow, run_sweep
from ligerdiag.sweep.result_store import ResultStore, StoredResult

CASES = """
from ligerdiag import Arg, Case
CASES = tuple(Case(name="good", params=(n,), function=lambda x: x + 1, args=(Arg(shape=(n,)),)) for n in (4, 5))
"""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yields a URL; its server runs as long as the test."""
    server: Any = importlib.import_module("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    forget_connections()
    yield f"s3://{uuid4().hex}/sweep"  # the buckets of a process outlive its servers
    forget_connections()
    server.stop()


def forget_connections() -> None:
    """fsspec caches connections by class: one to another test's server would be reused."""
    importlib.import_module("s3fs").S3FileSystem.clear_instance_cache()


def test_a_bucket_gives_the_same_table_as_a_folder_and_the_next_sweep_continues(
    bucket: str, tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGERDIAG_CACHE_DIR", str(shared_cache))
    (tmp_path / "good.py").write_text(CASES)
    grid = tmp_path / "grid.toml"

    def sweep(store: str, targets: str = '"a100", "h100"') -> SweepReport:
        grid.write_text(f'selectors = ["good.py"]\ntargets = [{targets}]\nreplay = false\n')
        return run_sweep(SweepOptions(grid=grid, store=store, jobs=1), lambda step: None)

    def list_rows(report: SweepReport) -> list[SweepRow]:
        return [replace(row, seconds=0.0) for row in report.rows]

    first = sweep(bucket, '"a100"')
    assert (first.ran, first.found, first.failed) == (2, 0, {})
    assert len(ResultStore(bucket).list_keys()) == 2, "whole results alone, under their keys"
    second = sweep(bucket)
    assert (second.ran, second.found, second.failed) == (2, 2, {})
    third = sweep(bucket)
    assert (third.ran, third.found, third.failed) == (0, 4, {})
    folder = sweep(str(tmp_path / "results"))
    assert folder.ran == 4
    assert list_rows(second) == list_rows(third) == list_rows(folder)
    assert {row.key for row in folder.rows} == ResultStore(bucket).list_keys()


def test_an_empty_bucket_or_one_with_other_contents_has_no_results(bucket: str) -> None:
    store = ResultStore(bucket)
    assert (store.list_keys(), store.find("ab")) == (frozenset(), None)
    one = StoredResult(
        key="ab", task={"case": "a"}, dependencies={"mine.py": "0"}, report={"cases": []}, data=b"\x00\xff"
    )
    store.keep(one)
    store.keep(one)
    assert (store.list_keys(), store.find("ab"), store.find("cd")) == ({"ab"}, one, None)


def test_an_unreachable_store_is_an_error_with_a_remedy(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore(bucket)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    forget_connections()
    with pytest.raises(InputError, match=r"cannot open the store `s3://.*/sweep`: Unable to locate cred.*credentials"):
        ResultStore(bucket)
    monkeypatch.setattr(store._files, "open", refuse)
    monkeypatch.setattr(store._files, "ls", refuse)
    monkeypatch.setattr(store._files, "pipe_file", refuse)
    one = StoredResult(key="ab", task={"case": "a"}, dependencies={}, report={})
    for ask in (store.list_keys, lambda: store.find("ab"), lambda: store.keep(one)):
        with pytest.raises(InputError, match=r"cannot (list|read|write) the store .*: the wire is cut: .*can reach it"):
            ask()


class OfItsOwnKind(Exception):
    """Like botocore's exceptions, not an OSError."""


def refuse(*_: object, **__: object) -> None:
    raise OfItsOwnKind("the wire is cut")


def test_a_missing_package_for_a_kind_of_store_is_named() -> None:
    with pytest.raises(
        InputError, match=r"cannot open the store `gcs://bucket`: .*gcsfs.*: install it, on every worker, too"
    ):
        ResultStore("gcs://bucket")
