"""Documents out of files: what is read, what it is named, and that a fault is named by file and line."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.errors import DocumentError
from constrained.extraction import Document, read_documents
from constrained.extraction.files.records import Columns, check_files, expand_inputs
from constrained.extras import MissingExtra

pa = pytest.importorskip("pyarrow")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=30)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, content: str | bytes) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def parquet(name: str, **columns: Any) -> str:
    import pyarrow.parquet

    pyarrow.parquet.write_table(
        pa.table(columns), name, row_group_size=max(3, len(next(iter(columns.values()))) // 8)
    )
    return name


def read(*names: str, **columns: Any) -> list[tuple[Any, str]]:
    return [(document.id, document.text) for document in read_documents(*names, **columns)]


def refusal(*names: str, **columns: Any) -> str:
    with pytest.raises(DocumentError) as caught:
        read(*names, **columns)
    return str(caught.value)


# ---------------------------------------------------------------- what is read


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
def test_every_format_gives_back_the_texts(pairs: list[tuple[str, str]]) -> None:
    """Written by the libraries that others write these files with."""
    ids = [str(number) for number in range(len(pairs))]
    texts = [text.replace("\0", "") for text, _ in pairs]
    other = [more.replace("\0", "") for _, more in pairs]
    rows = [{"key": i, "body": t, "other": o} for i, t, o in zip(ids, texts, other, strict=True)]
    write("a.jsonl", "".join(json.dumps(row, ensure_ascii=len(row["body"]) % 2 == 0) + "\n" for row in rows))
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        with open(name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(
                file, ["other", "body", "key"], delimiter=delimiter, quoting=csv.QUOTE_ALL
            )
            writer.writeheader()
            writer.writerows(rows)
    parquet("a.parquet", other=other, key=pa.array(ids, pa.string()), body=pa.array(texts, pa.large_string()))
    expected = list(zip(ids, texts, strict=True))
    for name in ("a.jsonl", "a.csv", "a.tsv", "a.parquet"):
        assert read(name, text_column="body", id_column="key") == expected, name
        assert check_files([name], Columns("body", "key")) == ([name], len(pairs), [])


def test_a_text_file_is_one_document_and_its_path_the_id() -> None:
    write("docs/b.txt", "zwei\n")
    write("docs/a.txt", b"\xef\xbb\xbfeins")
    write("docs/deep/c.md", "")
    assert read("docs/*.txt", "docs/**/*.md") == [
        ("docs/a.txt", "eins"),
        ("docs/b.txt", "zwei\n"),
        ("docs/deep/c.md", ""),
    ]


def test_an_id_is_taken_where_there_is_one() -> None:
    write("a.jsonl", '{"text": "x", "id": 7}\n\n{"text": "y"}\n{"id": "seven", "text": null}\n')
    write("b.csv", 'text,id\nx,8\n"two\nlines",\nz,9\n')
    parquet("c.parquet", text=["x", None], id=[1, None])
    assert read("a.jsonl") == [("7", "x"), ("a.jsonl:3", "y"), ("seven", "")]
    assert read("b.csv") == [("8", "x"), ("b.csv:3", "two\nlines"), ("9", "z")]
    assert read("c.parquet") == [("1", "x"), ("c.parquet:2", "")]


def test_standard_input_is_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO(b'\xef\xbb\xbf{"text": "x"}\n{"text": "y", "id": 1}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    assert read("-") == [("stdin:1", "x"), ("1", "y")]
    monkeypatch.setattr(sys, "stdin", None)
    assert "no standard input" in refusal("-")
    assert "twice" in refusal("-", "-")


def test_empty_files_hold_no_documents() -> None:
    parquet("e.parquet", text=pa.array([], pa.string()))
    for name in ("e.jsonl", "e.csv", "e.tsv"):
        write(name, "")
    assert read("e.jsonl", "e.csv", "e.tsv", "e.parquet") == []
    write("h.csv", "id,text\n")
    assert read("h.csv") == []


def test_files_are_read_a_record_at_a_time() -> None:
    with open("big.jsonl", "w", encoding="utf-8") as file:
        for number in range(5000):
            file.write(json.dumps({"id": number, "text": "x" * 4000}) + "\n")
    parquet("big.parquet", text=["y" * 4000 for _ in range(5000)])
    for name in ("big.jsonl", "big.parquet"):
        next(read_documents(name))
        tracemalloc.start()
        assert sum(len(document.text) for document in read_documents(name)) == 20_000_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_000_000, name


# ---------------------------------------------------------------- faults


FAULTS = {
    "latin.jsonl": (b'{"text": "a"}\n{"text": "caf\xe9"}\n', "latin.jsonl, line 2: not UTF-8 text"),
    "torn.jsonl": ('{"text": "a"}\n{"text": "b', "torn.jsonl, line 2: not a line of JSON: Unterminated string"),
    "list.jsonl": ("[1]\n", "list.jsonl, line 1: a list, not an object"),
    "deep.jsonl": ('{"text": ' + "[" * 100_000 + "\n", "deep.jsonl, line 1: not a line of JSON: nested too deeply"),
    "digits.jsonl": ('{"text": "a", "n": ' + "9" * 5000 + "}\n", "digits.jsonl, line 1: not a line of JSON"),
    "number.jsonl": ('{"text": 5}\n', "number.jsonl, line 1: 'text' is of type int"),
    "names.jsonl": ('{"body": "x", "key": 1}\n', "names.jsonl, line 1: there is no 'text'"),
    "float.jsonl": ('{"text": "x", "id": 1.5}\n', "float.jsonl, line 1: the id 1.5 is neither"),
    "half.jsonl": ('{"text": "x", "id": "\\ud800"}\n', "half.jsonl, line 1: the id '\\ud800' holds half a character"),
    "comma.csv": ("id,text\n1,Ana, who is old\n", "comma.csv, line 2: 3 fields, and the header has 2"),
    "quote.csv": ('id,text\n1,"open\n2,x\n', "quote.csv, line 2: malformed: unexpected end of data"),
    "twice.csv": ("text,text\na,b\n", "twice.csv, line 1: a column is named twice"),
    "names.csv": ("id;text\n1;x\n", "names.csv, line 2: there is no 'text'"),
    "latin.csv": (b"id,text\n1,a\n2,caf\xe9\n", "latin.csv, line 3: not UTF-8 text"),
    "latin.txt": (b"a\nb\ncaf\xe9\n", "latin.txt, line 3: not UTF-8 text: invalid continuation byte at byte 8 of the file"),
    "zeros.txt": (b"\xff\xfea\0b\0", "zeros.txt, line 1: not UTF-8 text"),
    "pdf.txt": (b"%PDF-1.7\n", "pdf.txt is a PDF file"),
    "bad.parquet": ("PAR1 no", "bad.parquet cannot be read as Parquet"),
    "letter.pdf": ("", "letter.pdf: .pdf files are not read\n  -> convert it: pdftotext -layout letter.pdf letter.txt"),
    "letter.docx": ("", "pandoc --to plain letter.docx --output letter.txt"),
    "page.html": ("", "pandoc --from html --to plain page.html --output page.txt"),
    "all.json": ("", "jq --compact-output '.[]' all.json > all.jsonl"),
    "a.gz": ("", "gunzip --keep a.gz"),
    "noname": ("", "noname: the type of the file is not known by its name"),
    "folder/x.txt": ("", "folder is a folder"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_file_and_line(name: str) -> None:
    content, message = FAULTS[name]
    write(name, content)
    assert message in refusal(name.split("/")[0])


def test_parquet_of_other_columns_names_those_it_has() -> None:
    parquet("a.parquet", body=["x"], key=[1])
    assert "a.parquet, row 1: there is no 'text'" in refusal("a.parquet")
    assert "there is body, key" in refusal("a.parquet")
    assert "'id' is of type int" in refusal(parquet("b.parquet", id=[1]), text_column="id")


def test_named_columns_have_to_be_there() -> None:
    write("a.jsonl", '{"text": "x", "key": 1}\n{"text": "y"}\n')
    assert "a.jsonl, line 2: there is no 'key'" in refusal("a.jsonl", id_column="key")
    write("b.csv", "text,key\nx,\n")
    assert "b.csv, line 2: the id '' is neither" in refusal("b.csv", id_column="key")


def test_missing_files_and_patterns() -> None:
    assert "a.txt cannot be read: no such file or directory" in refusal("a.txt")
    assert "no file matches docs/*.txt" in refusal("docs/*.txt")
    write("odd[1].txt", "x")  # a name, not a pattern
    assert read("odd[1].txt") == [("odd[1].txt", "x")]


def test_a_text_beyond_the_limit_is_refused_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from constrained.extraction.files import records

    monkeypatch.setattr(records, "TEXT_LIMIT", 1000)
    monkeypatch.setattr(records, "_LINE_LIMIT", 4000)
    write("a.jsonl", json.dumps({"text": "x" * 2000}))
    write("b.jsonl", json.dumps({"text": "x" * 200_000}))
    write("c.txt", "x" * 2000)
    assert "a.jsonl, line 1: a text of more than" in refusal("a.jsonl")
    assert "b.jsonl, line 1: more than" in refusal("b.jsonl")
    assert "c.txt: more than" in refusal("c.txt")


def test_ids_that_are_there_twice_name_both_places() -> None:
    write("a.jsonl", '{"text": "x", "id": 1}\n{"text": "y", "id": 2}\n')
    write("b.csv", "id,text\n3,x\n2,y\n")
    with pytest.raises(
        DocumentError, match=r"the id '2' is there twice: a\.jsonl, line 2 and b\.csv, line 3"
    ):
        check_files(expand_inputs(["a.jsonl", "b.csv"]), Columns())


def test_parquet_without_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet("a.parquet", text=["x"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"constrained-generation\[parquet\]"):
        read("a.parquet")


@pytest.mark.skipif(os.name != "posix", reason="signals and descriptors as POSIX has them")
def test_a_file_name_that_is_not_utf8_is_an_id_of_escapes() -> None:
    try:
        write(os.fsdecode(b"caf\xe9.txt"), "x")
    except OSError:
        pytest.skip("other systems have other folders")
    assert read("*.txt") == [("caf\\xe9.txt", "x")]


def test_the_reader_gives_documents() -> None:
    write("a.jsonl", '{"text": "x"}')
    assert list(read_documents(Path("a.jsonl"))) == [Document("a.jsonl:1", "x")]
