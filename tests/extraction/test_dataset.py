"""Extraction on a Ray cluster: what an actor does, and, slowly, a cluster of this machine whose workers are killed.

pip install 'constrained-generation[ray]'; pytest -m slow tests/extraction/test_dataset.py
"""

from __future__ import annotations

import functools
import importlib.util
import ipaddress
import json
import os
import re
import signal
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constrained import InvalidArgument
from constrained.errors import DocumentError, WorkerError
from constrained.extraction.cluster.dataset import ActorPool, extract_dataset
from constrained.extraction.files.parquet_files import read_rows
from constrained.extraction.files.results import ResultRow
from constrained.extras import MissingExtra
from constrained.testing import ScriptedModel
from tests.tools.cli_driver import BYTES

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SLOW = pytest.mark.slow
RAY = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install 'constrained-generation[ray]'",
)


class CityModel(ScriptedModel):
    """Says the city that stands after "From"; may end its process at a document, as a crash would."""

    def __init__(self, folder: str, deadly: str = "") -> None:
        super().__init__(BYTES, self.say)
        self.folder = folder
        self.deadly = deadly
        Path(folder, str(os.getpid())).touch()

    def say(self, prompt: str) -> str:
        city = re.findall(r"From (\w+)", prompt)[-1]
        if city == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return json.dumps({"city": city})


# ---------------------------------------------------------------- without a cluster


@pytest.mark.parametrize("actors", [0, (2, 1), (0, 3), 1.5, True])
def test_a_pool_has_at_least_one_actor(actors: Any) -> None:
    with pytest.raises(InvalidArgument, match="actors"):
        ActorPool(actors)
    with pytest.raises(InvalidArgument, match="GPUs"):
        ActorPool(1, 1, -1)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"constrained-generation\[ray\]"):
        extract_dataset(None, None, SCHEMA)


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ray", "ray.data"):  # refused before the library is used
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(sys.modules["ray"], "data", sys.modules["ray.data"], raising=False)
    engines: list[tuple[str, dict[str, Any]]] = [
        ("the engine 'other' is not known", {"engine": "other"}),
        ("engine_options are for vLLM", {"engine_options": {"dtype": "float32"}}),
        ("vLLM loads a model by its name", {"engine": "vllm", "model": CityModel}),
        ("vLLM chooses the device", {"engine": "vllm", "device": "cuda"}),
        ("vLLM does not say how likely", {"engine": "vllm", "details": ("fields",)}),
    ]
    for message, options in engines:
        with pytest.raises(InvalidArgument, match=message):
            extract_dataset(None, options.pop("model", None), SCHEMA, **options)
    with pytest.raises(InvalidArgument, match="every actor loads the model itself"):
        extract_dataset(None, object(), SCHEMA)
    with pytest.raises(InvalidArgument, match="is not a folder"):
        extract_dataset(None, None, SCHEMA, out="s3://bucket/results")
    (tmp_path / "file").touch()
    with pytest.raises(DocumentError, match="cannot be written"):
        extract_dataset(None, None, SCHEMA, out=tmp_path / "file")


def test_a_block_that_is_read_twice_is_one_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from constrained.extraction.cluster.ray_actor import write_part

    rows = [ResultRow("1", "{}"), ResultRow("2", None, "why", "Truncated")]
    write_part(str(tmp_path), rows)
    write_part(str(tmp_path), rows[::-1])  # results come as they end
    write_part(str(tmp_path), rows[:1])
    found = sorted(os.listdir(tmp_path))
    assert len(found) == 2
    assert sorted(len(list(read_rows(str(tmp_path / name)))) for name in found) == [1, 2]


# ---------------------------------------------------------------- a cluster of this machine


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from constrained.extraction.cluster.ray_cluster import connected

    with connected(None, cores=2) as ray:
        yield ray


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """A folder in which every actor leaves a file that is called as its process."""
    folder = tmp_path / "pids"
    folder.mkdir()
    return folder


def documents(ray: Any, count: int) -> Any:
    return ray.data.from_items([{"key": i, "body": f"From City{i}"} for i in range(count)])


def run(ray: Any, count: int, pids: Path, *, deadly: str = "", **options: Any) -> Any:
    options = {"text_column": "body", "id_column": "key", "actors": 2, "batch_size": 2, **options}
    model = functools.partial(CityModel, str(pids), deadly)
    return extract_dataset(documents(ray, count), model, SCHEMA, **options)


def check(rows: list[dict[str, Any]], numbers: Any) -> None:
    """Every document has one result, and it is its own."""
    assert sorted(int(row["id"]) for row in rows) == sorted(numbers)
    for row in rows:
        assert json.loads(row["value"]) == {"city": f"City{row['id']}"}
        assert row["error"] is None


@SLOW
@RAY
@pytest.mark.filterwarnings("default")  # those of Ray are its own
def test_the_cluster_listens_on_the_loopback_address_alone(cluster: Any) -> None:
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ or cluster.is_initialized()
    found = listening_addresses()
    assert len(found) >= 4, "the head's and the node's ports were not found"
    assert all(address.is_loopback for address in found), found


def listening_addresses() -> list[Any]:
    """Addresses at which processes of this user's Ray listen, and this process."""
    sockets: dict[str, Any] = {}
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # LISTEN
                raw = bytes.fromhex(fields[1].split(":")[0])
                words = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
                address: Any = ipaddress.ip_address(words)
                sockets[f"socket:[{fields[9]}]"] = getattr(address, "ipv4_mapped", None) or address
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
            if (
                process.name != str(os.getpid())
                and b"/ray/" not in command
                and not command.startswith(b"ray::")
            ):
                continue
            links = [os.readlink(link) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        found += [sockets[link] for link in links if link in sockets]
    return found


@SLOW
@RAY
@pytest.mark.filterwarnings("default")
def test_a_worker_that_is_killed_loses_nothing_and_doubles_nothing(cluster: Any, pids: Path) -> None:
    rows: list[dict[str, Any]] = []
    for row in run(cluster, 200, pids).iter_rows():
        rows.append(row)
        if len(rows) == 40:
            os.kill(int(min(os.listdir(pids))), signal.SIGKILL)
    check(rows, range(200))
    assert len(os.listdir(pids)) >= 3, "no actor was started in the place of the lost one"


@SLOW
@RAY
@pytest.mark.filterwarnings("default")
def test_results_in_a_folder_go_on_after_an_interruption(cluster: Any, pids: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    check(run(cluster, 30, pids, out=out).take_all(), range(30))
    parts = {name: (out / name).stat().st_mtime_ns for name in os.listdir(out)}
    with pytest.raises(DocumentError, match="has results already"):
        run(cluster, 30, pids, out=out)
    with pytest.raises(DocumentError, match="max_tokens: 40"):
        run(cluster, 30, pids, out=out, resume=True, max_tokens=40)
    (out / "part-torn.parquet.1.tmp").write_bytes(b"PAR1")  # of an actor that was killed while it wrote
    check(run(cluster, 50, pids, out=out, resume=True).take_all(), range(50))
    with pytest.raises(DocumentError, match="details"):
        run(cluster, 50, pids, out=out, resume=True, details=("spans",))
    assert parts.items() <= {name: (out / name).stat().st_mtime_ns for name in os.listdir(out)}.items()


@SLOW
@RAY
@pytest.mark.filterwarnings("default")
def test_a_document_that_kills_its_workers_costs_its_block_and_no_more(
    cluster: Any, pids: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    with pytest.raises(WorkerError, match=r"\d documents have no result: their actors were lost 4 times"):
        run(cluster, 40, pids, deadly="City17", out=out)
    rows = [row for part in out.glob("part-*.parquet") for row in read_rows(str(part))]
    there = {int(row["id"]) for row in rows}
    check(rows, there)
    assert 17 not in there
    assert len(there) >= 32, "more than a block was lost"


@SLOW
@RAY
@pytest.mark.filterwarnings("default")
def test_details_are_columns_of_the_dataset(cluster: Any, pids: Path, tmp_path: Path) -> None:
    for more in ({}, {"out": tmp_path / "results"}):
        rows = run(cluster, 5, pids, details=("spans", "fields"), **more).take_all()
        check(rows, range(5))
        for row in rows:
            assert json.loads(row["spans"]) == {"/city": {"start": 5, "end": 10, "how": "exact"}}
            assert json.loads(row["fields"])["/city"]["choice"] == "C"
    with pytest.raises(InvalidArgument, match="details of results are spans, fields, partial"):
        run(cluster, 5, pids, details="spans")


@SLOW
@RAY
@pytest.mark.filterwarnings("default")
def test_without_a_folder_a_document_that_kills_its_workers_is_an_error(cluster: Any, pids: Path) -> None:
    with pytest.raises(Exception, match="their actors were lost 4 times"):
        run(cluster, 8, pids, deadly="City3").take_all()


@SLOW
@RAY
@pytest.mark.filterwarnings("default")
def test_a_model_that_cannot_be_loaded_is_the_error(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="no-such-folder"):
        extract_dataset(
            documents(cluster, 4), str(tmp_path / "no-such-folder"), SCHEMA, text_column="body", id_column="key",
            out=tmp_path / "results",
        )  # fmt: skip


@SLOW
@RAY
@pytest.mark.filterwarnings("default")
def test_the_command_line_on_a_cluster(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bundled model and a type of a file that the actors cannot import."""
    from constrained.cli import main

    monkeypatch.chdir(tmp_path)
    Path("kinds.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Person:\n    name: str\n    age: int\n"
    )
    Path("docs.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": f"Ana is {20 + i} years old."}) + "\n" for i in range(6))
        + '{"id": "none", "text": ""}\n'
    )
    arguments = (
        "extract", "docs.jsonl", "-t", "kinds.py:Person", "--details", "spans", "--out", "r.jsonl", "--backend", "ray",
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--actors", "2", "--batch-size", "1"])
    assert ended.value.code == 5
    rows = {row["id"]: row for row in map(json.loads, Path("r.jsonl").read_text().splitlines())}
    assert set(rows) == {*map(str, range(6)), "none"}
    assert rows["none"]["error_type"] == "PromptError"
    assert rows["3"]["value"]["age"] == 23
    assert rows["3"]["spans"]["/age"] == {"start": 7, "end": 9, "how": "exact"}
    assert rows["none"]["spans"] is None
    with pytest.raises(SystemExit) as ended:  # and on with this process
        main([*arguments[:-2], "--resume", "--retry-errors"])
    assert ended.value.code == 5
