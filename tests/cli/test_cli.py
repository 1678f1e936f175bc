"""The command line: what it writes where, and that what it writes is whole.

A scripted model stands in for a real one: it says what a test makes it say, as far as the constraint lets it.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained import decoding, models, server
from constrained.cli import main
from constrained.cli.generation import indent_json
from constrained.decoding.speculation import Speculation
from constrained.extraction import plan
from tests.tools.cli_driver import replace_models

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
ADA = '{"name": "Ada", "born": 1815}'


@dataclass
class Ended:
    code: int
    out: str
    err: str


Cli = Callable[..., Ended]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs a command in an empty folder that holds person.json; the model says `script`, None is the bundled model."""
    monkeypatch.chdir(tmp_path)
    for name in ("TRANSFORMERS_VERBOSITY", "TOKENIZERS_PARALLELISM", "HF_HUB_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(
            name, os.environ.get(name, "error" if "VERB" in name else "1")
        )  # a command sets them; not for other tests
    (tmp_path / "person.json").write_text(json.dumps(PERSON))

    def run(*arguments: str, script: Any = ADA, stdin: bytes | None = None) -> Ended:
        if script is not None:
            replace_models(script, put=monkeypatch.setattr)
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run


# ---------------------------------------------------------------- results


def test_extract_writes_the_json_and_nothing_else(cli: Cli) -> None:
    assert cli("extract", "Ada was born in 1815.", "--schema", "person.json") == Ended(0, ADA + "\n", "")


def test_a_text_can_be_an_argument_a_file_or_piped_in(cli: Cli, tmp_path: Path) -> None:
    """The model echoes the city that it finds in its prompt, so the text has to have come through."""
    (tmp_path / "letter.txt").write_bytes(b"\xef\xbb\xbf" + "From Göteborg".encode())
    echo = {city: f'"{city}"' for city in ("Lyon", "Göteborg", "Kraków")}
    wanted = ("--schema", '{"type": "string"}')
    assert cli("extract", "From Lyon", *wanted, script=echo).out == '"Lyon"\n'
    assert cli("extract", "--file", "letter.txt", *wanted, script=echo).out == '"Göteborg"\n'
    assert cli("extract", *wanted, script=echo, stdin="From Kraków".encode()).out == '"Kraków"\n'
    assert cli("extract", "-", *wanted, script=echo, stdin="From Kraków".encode()).out == '"Kraków"\n'


def test_an_argument_is_not_overruled_by_an_open_pipe(cli: Cli) -> None:
    echo = {"Lyon": '"Lyon"', "Oslo": '"Oslo"'}
    assert (
        cli("extract", "Lyon", "--schema", '{"type": "string"}', script=echo, stdin=b"Oslo").out == '"Lyon"\n'
    )


def test_what_the_model_wants_to_say_is_bent_to_the_schema(cli: Cli) -> None:
    """It wants to say something else altogether; every output still follows the schema."""
    for script in ("Sure! Here it is:", '{"name": 5}', '{"born": "x"}', "", '{"name": "' + "y" * 5000):
        wanted = ("extract", "text", "--schema", "person.json", "--max-tokens", "60")
        ended = cli(*wanted, "--on-limit", "close", script=script)
        assert ended.code == 0
        jsonschema.validate(json.loads(ended.out), PERSON)


def test_a_result_that_the_token_limit_cut_is_an_error_with_its_place(cli: Cli) -> None:
    wanted = ("extract", "text", "--schema", '{"type": "array", "items": {"type": "string"}}')
    script = '["one", "two", "three"]'
    ended = cli(*wanted, "--max-tokens", "20", script=script)
    assert (ended.code, ended.out) == (3, "")
    assert "the token limit of 20 cut the completion" in ended.err
    assert 'in /2: "[\\"one\\", \\"two\\", ' in ended.err
    closed = cli(*wanted, "--max-tokens", "20", "--on-limit", "close", "--stats", script=script)
    assert (closed.code, "ended: limit" in closed.err) == (0, True)
    assert json.loads(closed.out)[:2] == ["one", "two"]
    assert cli(*wanted, "--max-tokens", "60", script=script).out == script + "\n"
    assert cli(*wanted, "--on-limit", "ignore", script=script).code == 2


def test_the_types_of_a_python_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "print('a module that chatters')\n"
        "@dataclass\n"
        "class Inner:\n    born: int\n"
        "@dataclass\n"
        "class Person:\n    name: str\n    inner: Inner\n"
        "class Box:\n    Held = Person\n"
        "schema = {'const': 5}\n"
        "from constrained import choice\n"
        "colour = choice(['red', 'blue'])\n"
    )
    output = '{"name": "Ada", "inner": {"born": 1815}}'
    for name in (
        "models.py:Person",
        "models:Person",
        "models:Box.Held",
        str(tmp_path / "models.py") + ":Person",
    ):
        assert cli("extract", "x", "--type", name, script=output).out == output + "\n"
    assert cli("extract", "x", "--type", "models:schema", script="7").out == "5\n"
    assert cli("extract", "x", "--type", "models:colour", script="blue").out == "blue\n"
    sys.modules.pop("models")


def test_a_module_of_the_users_hides_no_other(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("class Wanted(dict): ...\nThing = int\n")
    assert cli("extract", "x", "--type", "json.py:Thing", script="7").out == "7\n"
    import json as still

    assert still.dumps([1]) == "[1]"
    assert str(tmp_path) not in sys.path


def test_generate_shows_the_type_to_the_model_by_default(cli: Cli) -> None:
    seen: list[str] = []

    def script(prompt: str) -> str:
        seen.append(prompt)
        return ADA

    assert cli("generate", "Someone:", "--schema", "person.json", script=script).out == ADA + "\n"
    assert "Someone:" in seen[-1]
    assert "born" in seen[-1]
    cli("generate", "Someone:", "--schema", "person.json", "--raw", script=script)
    assert seen[-1] == "Someone:"


def test_bare_texts(cli: Cli) -> None:
    assert cli("generate", "?", "--choice", "red, green", "--choice", "blue", script="blue").out == "blue\n"
    assert cli("generate", "?", "--regex", "[0-9]{4}", script="1815").out == "1815\n"
    assert cli("extract", "so late", "--choice", "good,bad", script="bad").out == "bad\n"


def test_sampling_is_repeatable_and_reports_its_seed(cli: Cli) -> None:
    wanted = ("generate", "?", "--regex", "[a-z]{12}", "--temperature", "1", "--stats")
    first, again, other = (cli(*wanted, "--seed", seed, script="") for seed in ("7", "7", "8"))
    assert first.out == again.out != other.out
    assert "seed 7" in first.err


def test_indentation_and_white_space(cli: Cli) -> None:
    ended = cli("extract", "x", "--schema", "person.json", "--indent", "2")
    assert ended.out == '{\n  "name": "Ada",\n  "born": 1815\n}\n'
    tight = '{"name":"Ada","born":1815}'
    assert (
        cli("extract", "x", "--schema", "person.json", "--whitespace", "none", script=tight).out
        == tight + "\n"
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values, st.sampled_from([None, 1, 4]), st.sampled_from([None, 2, 3]), st.booleans())
def test_indented_json_is_what_json_dumps_writes(
    value: Any, before: int | None, after: int | None, escaped: bool
) -> None:
    text = json.dumps(value, indent=before, ensure_ascii=escaped)
    assert indent_json(text, after or 0) == json.dumps(value, indent=after, ensure_ascii=escaped)


def test_indenting_keeps_numbers_that_python_would_change() -> None:
    text = '{"a":[1e400,-0,1.10,' + "9" * 5000 + "]}"
    assert indent_json(text, 0) == text.replace(":", ": ").replace(",", ", ")


def test_figures_on_request_and_the_text_while_it_is_written(cli: Cli) -> None:
    ended = cli("extract", "x", "--schema", "person.json", "--stats")
    assert ended.out == ADA + "\n"
    assert ended.err.startswith(f"{len(ADA)} tokens in ")
    streamed = cli("extract", "x", "--schema", "person.json", "--stream")
    assert (streamed.out, streamed.err) == (ADA + "\n", ADA + "\n")


def test_the_bundled_model_reads_a_text_from_end_to_end(cli: Cli) -> None:
    text = "Ana Novák, born 1987, speaks Czech and Spanish."
    first, again = (cli("extract", text, "--schema", "person.json", "--stats", script=None) for _ in range(2))
    value = json.loads(first.out)
    jsonschema.validate(value, PERSON)
    assert value["name"] in text
    assert first.out == again.out
    assert "forward passes" in first.err
    assert len(first.err.splitlines()) == 1
    streamed = cli("extract", text, "--schema", "person.json", "--stream", script=None)
    assert streamed.out == first.out


# ---------------------------------------------------------------- check


def test_check_names_every_keyword_and_the_size(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({**PERSON, "title": "A person", "x-colour": 1}))
    ended = cli("check", "s.json", "--json")
    report = json.loads(ended.out)
    assert (ended.code, ended.err, report["supported"]) == (0, "", True)
    statuses = {entry["pointer"]: entry["status"] for entry in report["keywords"]}
    assert statuses["#/properties/born/type"] == "enforced"
    assert (statuses["#/title"], statuses["#/x-colour"]) == ("annotation", "unknown")
    assert report["grammar"]["terminals"] > 0
    assert report["automaton"]["states"] > 0
    assert report["automaton"]["shortest_completion"] > 0

    text = cli("check", "s.json").out
    assert "enforced    #/properties/born/type" in text
    counted = f"{list(statuses.values()).count('enforced')} enforced, 1 annotations, 1 unknown"
    assert f"keywords: {counted}" in text
    assert cli("check", "s.json", "--quiet") == Ended(0, "", "")
    assert "#/x-colour     unknown to draft 2020-12" in cli("check", "s.json", "--strict").err


def test_check_lists_what_would_be_checked_afterwards(cli: Cli) -> None:
    schema = json.dumps({"type": "string", "pattern": r"^(a)\1$"})
    assert cli("check", "--schema", schema).code == 1
    text = cli("check", "--schema", schema, "--unsupported", "check").out
    assert "unchecked   #/pattern  (back-references are not regular" in text
    assert "keywords: 1 enforced, 0 annotations, 1 unchecked" in text


def test_options_of_json_texts(cli: Cli) -> None:
    schema = json.dumps({"type": "object", "properties": {"é": {"type": "array"}}, "required": ["é"]})
    wanted = ("extract", "x", "--schema", schema, "--closed", "--json-schema-draft", "7")
    escaped = '{"\\u00e9": [1,2]}'
    result = cli(*wanted, "--separators", ",", ": ", "--ensure-ascii", script=escaped)
    assert result.out == escaped + "\n"
    plain = '{"é":[]}'
    assert cli(*wanted, "--no-ensure-ascii", "--whitespace", "none", script=plain).out == plain + "\n"


def test_check_takes_whatever_a_constraint_can_be(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text("import enum\nclass Colour(enum.Enum):\n    red = 'red'\n")
    for given_ in (
        ["shapes.py:Colour"],
        ["--regex", "a+"],
        ["--choice", "a,b"],
        ['{"type": "null"}'],
        ["builtins:int"],
    ):
        assert cli("check", *given_).out.startswith("supported: "), given_


def test_check_needs_numpy_alone_for_the_bundled_vocabulary(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from constrained.cli.checking import load_vocabulary

    by_its_tokenizer = constrained.load().vocabulary
    for name in ("torch", "transformers", "tokenizers"):
        monkeypatch.setitem(sys.modules, name, None)  # its import fails
    ours = load_vocabulary(None)
    assert ours == by_its_tokenizer
    assert (list(ours.tokens), ours.eos_ids) == (list(by_its_tokenizer.tokens), by_its_tokenizer.eos_ids)
    assert dict(ours.special) == dict(by_its_tokenizer.special)
    assert cli("check", "person.json").out.startswith("supported: ")
    ended = cli("check", "person.json", "--tokenizer", "other")
    assert (ended.code, ended.out) == (2, "")
    assert "pip install 'constrained-generation[transformers]'" in ended.err


def test_check_of_a_program_asks_for_the_type_in_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text('"""Shapes."""')
    ended = cli("check", "shapes.py")
    assert (ended.code, ended.out) == (2, "")
    assert "name the type in it: shapes.py:NAME" in ended.err


def test_check_warns_of_terminals_that_match_the_same_text(cli: Cli, tmp_path: Path) -> None:
    rules = "start: (A | B | C)+\nA: /[a-z]+/\nB: /x[0-9]*/\nC: /(x|y)*x(x|y){40}z/"
    (tmp_path / "grammar.lark").write_text(rules)
    ended = cli("check", "grammar.lark")
    assert ended.code == 0
    assert "warning: A and B both match 'x' -> " in ended.out
    assert "not compared: C: whether A matches one of its texts: it takes more than 50,000 steps" in ended.out
    report = json.loads(cli("check", "grammar.lark", "--json").out)
    assert report["overlapping_terminals"] == [{"terminals": ["A", "B"], "example": "x"}]
    assert [entry["terminal"] for entry in report["not_compared"]] == ["C"]

    (tmp_path / "grammar.lark").write_text("start: A")
    assert cli("check", "grammar.lark").code == 2
    assert cli("check", "grammar.lark", "--whitespace", "none").code == 2


def test_check_says_why_a_token_is_refused(cli: Cli, tmp_path: Path) -> None:
    pattern = ("--regex", "[ab]+1?")
    allowed = cli("check", *pattern, "--token", "b", "--after", "a").out.splitlines()
    assert allowed[0].endswith("b'b': allowed")
    assert allowed[1:] == [
        "each of its bytes is allowed; there may follow: '1ab', or the end",
        "byte by byte: the same mask",
    ]
    refused = json.loads(cli("check", *pattern, "--token", "an", "--after", "b", "--json").out)
    assert (refused["allowed"], refused["transition"], refused["judge"]) == (False, False, "the same mask")
    assert refused["reason"] == "byte 2 of 2, b'n', is refused; there may follow: '1ab', or the end"
    number = f"id:{refused['token']}"
    assert json.loads(cli("check", *pattern, "--token", number, "--after", "b", "--json").out) == refused
    assert cli("check", *pattern, "--token", "b", "--after", "a", "--quiet") == Ended(0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--token", "b", "--after", "a1a"),
            "--after is refused: byte 1 of 1, b'a', is refused; there may follow: ''",
        ),
        (("--token", "id:999999"), "'id:999999' is no token"),
        (("--token", "no such token"), "name a whole token by its text, or by id:NUMBER"),
    ],
)
def test_check_of_no_token_is_bad_input(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    ended = cli("check", "--regex", "[ab]+1?", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_check_of_a_token_says_where_no_judge_is(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "grammar.lark").write_text("start: part\npart[max_tokens=3]: /a+/\n")
    lines = cli("check", "grammar.lark", "--token", "a").out.splitlines()
    assert lines[0].endswith("b'a': allowed")
    assert lines[2].startswith("byte by byte: cannot tell: ")


def test_check_lists_everything_that_stands_in_the_way(cli: Cli, tmp_path: Path) -> None:
    bad = {"properties": {"a": {"uniqueItems": True, "minItems": 100}, "b": {"pattern": "(x)\\1"}}}
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    ended = cli("check", "bad.json")
    assert (ended.code, ended.out) == (1, "")
    assert "#/properties/a/uniqueItems" in ended.err
    assert "#/properties/b/pattern" in ended.err

    report = json.loads(cli("check", "bad.json", "--json").out)
    assert (report["supported"], report["error"]) == (False, "UnsupportedConstraint")
    assert sorted(problem["place"] for problem in report["problems"]) == [
        "#/properties/a/uniqueItems",
        "#/properties/b/pattern",
    ]


# ---------------------------------------------------------------- help


def test_help_teaches(cli: Cli) -> None:
    import constrained

    assert cli("--version").out == f"constrained {constrained.__version__}\n"
    assert "constrained extract --file letter.txt" in cli("--help").out
    assert "130  interrupted" in cli("--help").out
    for command in ("extract", "generate", "check"):
        assert "Examples:" in cli(command, "--help").out
    assert "--whitespace" in cli("extract", "--help").out


@pytest.mark.parametrize("sampler", ["awrs", "asap", "mcmc", "smc"])
def test_a_sampler_can_be_named(cli: Cli, sampler: str) -> None:
    ended = cli(
        "generate", "?", "--regex", "[ab]{2}", "--sampler", sampler, "--seed", "3", "--stats", script=""
    )
    assert ended.code == 0
    assert re.fullmatch("[ab]{2}\n", ended.out)
    assert f"distribution {'greedy' if sampler == 'awrs' else sampler}" in ended.err
    assert ("attempts" in ended.err) == (sampler in ("mcmc", "smc"))


SPECULATION: list[tuple[tuple[str, ...], Any]] = [
    ((), Speculation()),
    (("--speculation", "auto"), Speculation()),
    (("--speculation", "3"), Speculation(nodes=3)),
    (("--speculation", "off"), None),
]


@pytest.mark.parametrize("command", ["extract", "generate"])
@pytest.mark.parametrize(("arguments", "expected"), SPECULATION)
def test_commands_speculate_by_default_as_the_functions_do(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str, arguments: tuple[str, ...], expected: Any
) -> None:
    made: list[Any] = []

    class Recorded(decoding.Generator):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr(plan, "Generator", Recorded)
    assert cli(command, "Ada", "--schema", "person.json", *arguments).out == ADA + "\n"
    assert [generator.speculation for generator in made] == [expected]


@pytest.mark.parametrize(
    ("arguments", "expected"), [((), None), (("--speculation", "auto"), "auto"), (("--speculation", "3"), 3)]
)
def test_the_server_gets_its_speculation(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], expected: Any
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(models, "load", lambda *_, **__: None)
    monkeypatch.setattr(server, "serve", lambda model, settings, **_: started.append(settings))
    assert cli("serve", *arguments).code == 0
    assert started[0].speculation == (Speculation(nodes=3) if expected == 3 else expected)


def test_python_runs_the_package_as_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m constrained", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("constrained", run_name="__main__")
    assert not ended.value.code
    assert constrained.__version__ in capsys.readouterr().out


def test_the_help_begins_with_what_everyone_needs_and_has_the_rest_in_sections(cli: Cli) -> None:
    said = cli("extract", "--help").out
    first, *others = re.split(r"\n(?=\S.*:\n)", said.partition("\nOptions:\n")[2])
    assert re.findall(r"^  (?:-\w, )?(--[\w-]+)", first, re.MULTILINE) == [
        "--schema", "--type", "--file", "--out", "--model", "--max-tokens", "--help",
    ]  # fmt: skip
    assert "[default: 512" in first
    assert [section.partition(":\n")[0] for section in others] == [
        "Other constraints", "Files of documents (with --out)", "Cluster and engine", "Prompt and reading",
        "Model, limits and sampling", "Form of JSON", "Output",
    ]  # fmt: skip
