"""What the command line says to a mistake: a line or a few, an exit code, nothing on standard output, no traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from constrained.cli.exit_status import in_options
from constrained.cli.inputs import TEXT_LIMIT
from tests.cli.test_cli import ADA, Cli, cli

__all__ = ["cli"]

PERSON = ("--schema", "person.json")

# (exit code, arguments, what the message has to say)
MISTAKES: list[tuple[int, tuple[str, ...], tuple[str, ...]]] = [
    # the constraint
    (2, ("extract", "x"), ("no constraint was given", "--schema FILE.json")),
    (2, ("extract", "x", *PERSON, "--regex", "a"), ("several constraints were given",)),
    (2, ("extract", "x", "--schema", "missing.json"), ("missing.json cannot be read: no such file",)),
    (2, ("extract", "x", "--schema", "."), (". cannot be read: is a directory",)),
    (
        2,
        ("extract", "x", "--schema", "broken.json"),
        ("broken.json: the schema is not valid JSON", "line 2, column 8", "^"),
    ),
    (2, ("extract", "x", "--schema", "list.json"), ("list.json: a JSON Schema is an object, true or false",)),
    (2, ("extract", "x", "--schema", "latin.json"), ("latin.json: the schema is not UTF-8", "byte 11")),
    (2, ("extract", "x", "--schema", '{"type": "objct"}'), ("malformed", '#/type: "objct"')),
    (
        1,
        ("extract", "x", "--schema", '{"uniqueItems": true, "minItems": 100}'),
        ("#/uniqueItems", "cannot be enforced"),
    ),
    (1, ("extract", "x", "--schema", '{"type": "string", "enum": [1]}'), ("no value satisfies",)),
    (1, ("extract", "x", "--type", "kinds.py:nothing"), ("no value satisfies",)),
    (2, ("extract", "x", "--regex", "("), ("position",)),
    (1, ("extract", "x", "--regex", r"(a)\1"), ("back-references", "^")),
    (2, ("extract", "x", "--choice", ","), ("--choice names nothing", "--choice yes,no")),
    (2, ("generate", "x", "--choice", ""), ("--choice names nothing", "--choice yes,no")),
    (
        2,
        ("extract", "x", "--choice", "a", "--whitespace", "none"),
        ("--whitespace does not apply to --choice",),
    ),
    (2, ("extract", "x", *PERSON, "--whitespace", "lots"), ("'lots'", "bounded")),
    (2, ("extract", "x", "--choice", "a", "--ensure-ascii"), ("--ensure-ascii does not apply to --choice",)),
    (
        2,
        ("extract", "x", "--type", "kinds.py:Person", "--closed"),
        ("--closed does not apply to a Python type",),
    ),
    (2, ("extract", "x", *PERSON, "--json-schema-draft", "9"), ("unknown draft", "2019-09")),
    (2, ("extract", "x", *PERSON, "--separators", ";", ":"), ("separators", "';'")),
    # Python types
    (2, ("extract", "x", "--type", "Person"), ("does not name a Python object", "module:Name")),
    (
        2,
        ("extract", "x", "--type", "no_such_module:Person"),
        ("no module named 'no_such_module'", "path/to/file.py"),
    ),
    (2, ("extract", "x", "--type", "missing.py:Person"), ("missing.py cannot be read: no such file",)),
    (2, ("extract", "x", "--type", "kinds.py:Persn"), ("no 'Persn'", "did you mean kinds.py:Person?")),
    (2, ("extract", "x", "--type", "syntax.py:X"), ("syntax.py cannot be imported: SyntaxError", "line 1")),
    (2, ("extract", "x", "--type", "raises.py:X"), ("ZeroDivisionError", "raises.py, line 2")),
    (2, ("extract", "x", "--type", "leaves.py:X"), ("leaves.py cannot be imported: SystemExit",)),
    (
        2,
        ("extract", "x", "--type", "needs.py:X"),
        ("needs.py needs nothing_like_it, which is not installed",),
    ),
    (1, ("extract", "x", "--type", "kinds.py:Person"), ("Person.born", "slice")),
    (2, ("check", ""), ("the schema is empty",)),
    (2, ("check", "empty.txt"), ("empty.txt is empty", "JSON")),
    (2, ("extract", "x", "--schema", " "), ("the schema is empty",)),
    # the text
    (2, ("extract", "", *PERSON), ("the text is empty",)),
    (2, ("extract", " \n ", *PERSON), ("the text is empty",)),
    (2, ("extract", "--file", "empty.txt", *PERSON), ("empty.txt is empty",)),
    (2, ("extract", "--file", "missing.txt", *PERSON), ("missing.txt cannot be read: no such file",)),
    (2, ("extract", "--file", "latin.txt", *PERSON), ("latin.txt is not UTF-8 text", "at byte 3", "iconv")),
    (2, ("extract", "--file", "huge.txt", *PERSON), ("huge.txt has more than 16 MiB",)),
    (2, ("extract", "x", "--file", "latin.txt", *PERSON), ("given twice",)),
    (2, ("extract", "caf\udce9", *PERSON), ("the text is not valid UTF-8 at character 3",)),
    # settings
    (2, ("extract", "x", *PERSON, "--temperature", "-1"), ("temperature is -1",)),
    (
        2,
        ("extract", "x", *PERSON, "--sampler", "beam"),
        ("sampler 'beam' is not known", "use one of", "cars"),
    ),
    (2, ("extract", "x", *PERSON, "--sampler", "cars", "--temperature", "0"), ("temperature above 0",)),
    (2, ("extract", "x", *PERSON, "--max-tokens", "-3"), ("max_tokens is -3",)),
    *(
        (2, (*command, "--speculation", value), ("--speculation", f"'{value}'", "auto, off"))
        for command in (("extract", "x", *PERSON), ("generate", "x", *PERSON), ("serve",))
        for value in ("on", "0", "-1", "1.5", "")
    ),
    (2, ("serve", "--assistant", "bundled"), ("drafts are off", "pass --speculation auto")),
    *((2, (*command, "--draft", "7"), ("--draft",)) for command in (("extract", "x", *PERSON), ("serve",))),
    (
        2,
        ("extract", "x", "--type", "kinds.py:Person", "--json-schema-draft", "7"),
        ("--json-schema-draft does not apply to a Python type",),
    ),
    (2, ("extract", "x", *PERSON, "--max-tokens", "many"), ("--max-tokens", "integer")),
    (3, ("extract", "x", *PERSON, "--max-tokens", "5"), ("max_tokens=5", "the shortest one found needs")),
    (2, ("extract", "x", *PERSON, "--no-such-option"), ("--no-such-option",)),
    (2, ("extrct", "x"), ("extrct",)),
    (2, ("check",), ("no constraint was given",)),
    (2, ("check", "person.json", *PERSON), ("several constraints were given",)),
]


@pytest.fixture
def folder(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "broken.json": '{"type":\n "int" "x"}',
        "list.json": "[1, 2]",
        "latin.json": '{"title": "é"}'.encode("latin-1"),
        "empty.txt": "\n",
        "latin.txt": "café".encode("latin-1"),
        "kinds.py": "from typing import TypedDict\nclass Person(TypedDict):\n    born: slice\nnothing = False\n",
        "syntax.py": "class X(:\n",
        "raises.py": "def f():\n    return 1 / 0\nX = f()\n",
        "leaves.py": "import sys\nsys.exit(0)\n",
        "needs.py": "import nothing_like_it\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with (tmp_path / "huge.txt").open("wb") as huge:
        huge.truncate(TEXT_LIMIT + 1)  # zeros that take no space on the disk


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("code", "arguments", "fragments"), MISTAKES, ids=lambda part: str(part)[:60])
def test_a_mistake_is_explained(
    cli: Cli, code: int, arguments: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    ended = cli(*arguments)
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert "Traceback" not in ended.err
    assert len(ended.err.splitlines()) <= 8
    for part in fragments:
        assert part in ended.err


def test_standard_input_that_is_no_text(cli: Cli) -> None:
    assert cli("extract", *PERSON, stdin=b"").err.startswith("error: standard input is empty")
    binary = cli("extract", *PERSON, stdin=b"abc\xff\xfe")
    assert (binary.code, binary.out) == (2, "")
    assert "standard input is not UTF-8 text: invalid start byte at byte 3" in binary.err


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is unreadable for this user"
)
def test_a_file_that_may_not_be_read(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "secret.txt").chmod(0)
    ended = cli("extract", "--file", "secret.txt", *PERSON)
    assert (ended.code, ended.err) == (2, "error: secret.txt cannot be read: permission denied\n")


def test_a_value_that_the_types_own_code_refuses_is_not_printed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "strict.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Even:\n"
        "    number: int\n"
        "    def __post_init__(self):\n"
        "        if self.number % 2:\n"
        "            raise ValueError('odd numbers are not for us')\n"
    )
    ended = cli("extract", "x", "--type", "strict.py:Even", script='{"number": 7}')
    assert (ended.code, ended.out) == (4, "")
    assert "odd numbers are not for us" in ended.err
    assert cli("extract", "x", "--type", "strict.py:Even", script='{"number": 8}').out == '{"number": 8}\n'


def test_a_text_that_the_model_has_no_room_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tools.cli_driver import SlowModel

    monkeypatch.setattr(SlowModel, "encode", lambda self, prompt, *, chat=True: [1] * 3000)
    monkeypatch.setattr(SlowModel, "__getattribute__", _with_context(3010))
    ended = cli("extract", "x", *PERSON)
    assert (ended.code, ended.out) == (3, "")
    assert "3000 tokens" in ended.err
    assert "--split" in ended.err


def _with_context(context: int):  # type: ignore[no-untyped-def]
    def get(self: object, name: str) -> object:
        return context if name == "context" else object.__getattribute__(self, name)

    return get


def test_a_model_that_cannot_be_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from constrained.cli import main

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    for name in (str(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(SystemExit) as ended:
            main(["extract", "x", "--schema", '{"type": "null"}', "--model", name])
        captured = capsys.readouterr()
        assert (ended.value.code, captured.out) == (2, "")
        assert captured.err.startswith(f"error: the tokenizer {name!r} cannot be loaded")


def test_developers_get_their_traceback(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    from constrained.cli import main
    from constrained.errors import DoesNotFit
    from tests.tools.cli_driver import replace_models

    assert cli("extract", "x", *PERSON, "--max-tokens", "1").code == 3
    replace_models(ADA)
    with pytest.raises(DoesNotFit):
        main(["--traceback", "extract", "x", *PERSON, "--max-tokens", "1"])


def test_a_mistake_of_the_program_is_admitted(cli: Cli) -> None:
    def script(prompt: str) -> str:
        raise LookupError("two\nlines")

    ended = cli("extract", "x", *PERSON, script=script)
    assert (ended.code, ended.out) == (70, "")
    assert "unexpected LookupError: two lines" in ended.err
    assert "--traceback" in ended.err


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            'a\n  -> raise max_tokens, or pass on_limit="close"',
            "a\n  -> raise --max-tokens, or pass --on-limit close",
        ),
        (
            'max_tokens\n  -> pass long="split" to read it in parts',
            "max_tokens\n  -> pass --split to read it in parts",
        ),
        ("a\n  -> pass max_tokens=12 or more", "a\n  -> pass --max-tokens 12 or more"),
        ("a\n  -> use a model with a longer context", "a\n  -> use a model with a longer context"),
    ],
)
def test_the_next_step_is_said_in_options(message: str, shown: str) -> None:
    assert in_options(message) == shown
