"""Native tables are kept in files that processes share; whatever is wrong with a file, the tables are right."""

from __future__ import annotations

import functools
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained import _core
from constrained.automaton import TokenAutomaton
from constrained.grammars import ir
from constrained.vocabulary import Vocabulary, table_cache
from tests.support.paths import ROOT

BYTES = [bytes([byte]) for byte in range(256)]
GRAMMAR = ir.Grammar.of(ir.repeat(ir.union(ir.chars([(97, 122)]), ir.literal(", ")), 1, 40))


@functools.cache
def words(seed: int) -> list[bytes]:
    rng = random.Random(seed)
    return sorted({bytes(rng.choices(b"abcdefgh, \xc3\xa9", k=rng.randint(2, 7))) for _ in range(20_000)})


def large(seed: int = 0, count: int = 10_000) -> Vocabulary:
    """Large enough to be worth a file, and never the same object."""
    return Vocabulary.from_bytes([*BYTES, *words(seed)[:count], b""], [256 + count])


def masks(vocabulary: Vocabulary) -> list[bytes]:
    """Some masks, which depend on all tables."""
    automaton = TokenAutomaton(GRAMMAR, vocabulary)
    states = [automaton.start, *automaton.walk(automaton.start, list(b"abc, de"))]
    assert len(states) == 8
    rows = automaton.new_mask(len(states))
    automaton.fill_masks(states, rows)
    return [row.tobytes() for row in rows]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(table_cache.CACHE_VARIABLE, str(tmp_path / "tables"))
    return tmp_path / "tables"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each native vocabulary that was made since came from a table file."""
    seen: list[bool] = []
    real = _core.Vocabulary

    def counted(*args: Any, table_file: Any = None, **options: Any) -> Any:
        made = real(*args, table_file=table_file, **options)
        seen.append(table_file is not None)
        return made

    monkeypatch.setattr(_core, "Vocabulary", counted)
    return seen


def test_the_first_process_writes_a_file_and_the_next_only_opens_it(folder: Path, builds: list[bool]):
    expected = masks(large())
    (file,) = folder.iterdir()
    assert file.name.startswith(large().fingerprint)
    assert builds == [False, True], "the process that wrote the file shares it too"
    assert masks(large()) == expected
    assert builds == [False, True, True]


def test_tables_from_a_file_are_those_that_would_be_built(folder: Path, monkeypatch: pytest.MonkeyPatch):
    from_file = large().core
    monkeypatch.setenv(table_cache.CACHE_VARIABLE, "")
    assert np.array_equal(from_file.table_file, large().core.table_file)
    assert list(folder.iterdir())


def test_other_tokens_have_another_file(folder: Path):
    vocabularies = [large(0), large(1), large(0, 9_999)]
    for vocabulary in vocabularies:
        masks(vocabulary)
    assert {file.name[:32] for file in folder.iterdir()} == {v.fingerprint for v in vocabularies}


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        flip(0),  # what tells the format, and the order of bytes
        flip(8),  # the version
        flip(12),  # sections
        flip(16),  # size
        flip(24),  # checksum
        flip(40),  # where a section is
        flip(5_000),
        flip(-1000),
        lambda data: data[:-64],
        lambda data: data[:20],
        lambda data: b"",
        lambda data: data + bytes(64),
        lambda data: bytes(len(data)),
        lambda data: data[7::-1] + data[8:],
    ],
)
def test_a_damaged_file_is_made_again(folder: Path, builds: list[bool], damage: Callable[[bytes], bytes]):
    expected = masks(large())
    (file,) = folder.iterdir()
    good = file.read_bytes()
    file.unlink()  # as a crash or another program would leave it; nobody may change a file that is mapped
    file.write_bytes(damage(good))
    assert masks(large()) == expected
    assert builds[2:] == [False, True]
    assert file.read_bytes() == good


def test_a_file_of_other_tokens_is_not_believed(folder: Path, builds: list[bool]):
    masks(large(0))
    (file,) = folder.iterdir()
    file.rename(folder / file.name.replace(large(0).fingerprint, large(1).fingerprint))
    expected_elsewhere = masks(large(1))
    assert builds[2:] == [False, True]
    assert masks(large(1)) == expected_elsewhere


def test_a_table_file_of_another_vocabulary_is_an_error():
    one, other = large(0), large(1)
    with pytest.raises(ValueError, match="other tokens"):
        _core.Vocabulary(
            other.tokens.blob, other.tokens.offsets, list(other.eos_ids), table_file=one.core.table_file
        )


def test_a_table_file_outlives_the_vocabulary_it_came_from():
    def tables(table_file: Any = None) -> Any:
        source = large()
        return _core.Vocabulary(
            source.tokens.blob, source.tokens.offsets, list(source.eos_ids), table_file=table_file
        )

    second = tables(tables().table_file)
    assert np.array_equal(second.table_file, tables().table_file)


@pytest.mark.parametrize("kind", ["a file", "read-only", "below a file"])
def test_no_folder_to_write_to_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: list[bool], kind: str
):
    place = tmp_path / "place"
    if kind == "read-only":
        place.mkdir(mode=0o500)
        if os.access(place, os.W_OK):
            pytest.skip("this user may write anywhere")
    else:
        place.write_bytes(b"")
    monkeypatch.setenv(table_cache.CACHE_VARIABLE, str(place / "below" if kind == "below a file" else place))
    assert masks(large())
    assert builds == [False]


def test_without_a_folder_and_for_a_few_tokens_there_are_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: list[bool]
):
    monkeypatch.setenv(table_cache.CACHE_VARIABLE, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    masks(large())
    monkeypatch.setenv(table_cache.CACHE_VARIABLE, str(tmp_path))
    masks(Vocabulary.from_bytes([*BYTES, b""], [256]))
    assert builds == [False, False]
    assert not list(tmp_path.rglob("*"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_folder_is_the_users_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(table_cache.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert table_cache.cache_folder() == tmp_path / ".cache" / "constrained"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert table_cache.cache_folder() == Path("/elsewhere/constrained")
    monkeypatch.setenv(table_cache.CACHE_VARIABLE, "/named")
    assert table_cache.cache_folder() == Path("/named")
    monkeypatch.setenv(table_cache.CACHE_VARIABLE, "")
    assert table_cache.cache_folder() is None


def test_threads_that_open_the_same_tables_at_once_do_not_disturb_each_other(folder: Path):
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: masks(large()), range(12)))
    assert all(one == found[0] for one in found)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.ci
def test_processes_that_begin_at_once_leave_one_whole_file(folder: Path, builds: list[bool]):
    code = "import sys; sys.path[:0] = sys.argv[1:]; from tests.vocabulary import test_table_cache as t; t.masks(t.large())"
    command = [sys.executable, "-c", code, str(ROOT)]
    running = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(list(folder.iterdir())) == 1
    masks(large())
    assert builds == [True]


@pytest.mark.skipif(sys.byteorder != "little", reason="the bytes are those of a little-endian machine")
def test_what_files_mean_changes_only_with_their_version():
    """If this fails, raise `TableFile::kVersion` (table_file.hpp): processes would believe tables that mean something else."""
    vocabulary = Vocabulary.from_bytes([*BYTES, b"ab", b"Ab1", "é".encode(), b"", b"ab"], [259])
    assert _core.TABLE_FILE_VERSION == 2
    assert hashlib.blake2b(vocabulary.core.table_file, digest_size=8).hexdigest() == "c5fbd685e497f3cb"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_a_pipe_with_the_name_of_the_file_is_not_waited_for(folder: Path, builds: list[bool]):
    expected = masks(large())
    (file,) = folder.iterdir()
    file.unlink()
    os.mkfifo(file)
    assert masks(large()) == expected
    assert builds[2:] == [False, True]
    assert file.is_file()
