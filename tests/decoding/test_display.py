"""A result shows where its tokens came from: found along the automaton, for terminals and notebooks."""

from __future__ import annotations

import io
import pickle
import re
from html.parser import HTMLParser

import numpy as np
from rich.console import Console

import constrained
from constrained import Generator
from constrained.cli.stream_display import live_display
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary

VOCABULARY = byte_vocabulary('{"', "name", '": ', '"name": "')
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}},
    "required": ["name"],
    "additionalProperties": False,
}
JSON = constrained.json_schema(SCHEMA, whitespace="none")


def written(text: str = '{"name":"Zoë<b>"}', constraint: constrained.Constraint = JSON) -> constrained.Output:
    return Generator(ScriptedModel(VOCABULARY, text), constraint)("who?")


class Texts(HTMLParser):
    """What a browser shows, and the notes on it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.notes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.notes += [value for name, value in attrs if name == "title"]

    def handle_data(self, data):
        self.text += data


def test_tokens_are_forced_where_the_constraint_leaves_no_choice():
    out = written()
    assert "".join(token.text for token in out.annotated_tokens) == out.text
    by_source = {
        source: "".join(t.text for t in out.annotated_tokens if t.source == source)
        for source in ("forced", "model")
    }
    assert by_source == {"forced": '{"name":"' + "}", "model": 'Zoë<b>"'}


def test_what_else_was_allowed_is_what_the_mask_says():
    out = written()
    state = out.automaton.start
    for token, shown in zip(out.tokens, out.annotated_tokens, strict=True):
        row = out.automaton.new_mask()
        out.automaton.fill_mask(state, row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert shown.allowed == len(allowed)
        assert len(shown.alternative_tokens) == min(5, len(allowed) - 1)
        state = out.automaton.next(state, token)


def test_a_terminal_gets_colours_and_a_file_plain_text():
    out = written()
    plain = io.StringIO()
    out.show(file=plain)
    first, second = plain.getvalue().splitlines()
    assert first == out.text
    assert re.match(r"\d+ model, \d+ forced, \d+ forward passes, greedy, ended: complete", second)
    detailed = io.StringIO()
    out.show(file=detailed, details=True)
    assert len(detailed.getvalue().splitlines()) == len(out.tokens) + 3


def test_a_notebook_gets_the_text_and_a_note_on_every_token():
    out = written()
    page = Texts(out._repr_html_())
    assert page.text.startswith(out.text)
    assert "<b>" not in out._repr_html_()  # what a model writes is text, not markup
    assert len(page.notes) == len(out.tokens)
    assert page.notes[0].startswith("forced")


def test_markup_of_a_model_stays_text():
    out = written("[bold]x[/bold]", constrained.regex(r".*"))
    plain = io.StringIO()
    out.show(file=plain)
    assert plain.getvalue().splitlines()[0] == "[bold]x[/bold]"


def test_display_does_not_call_predicates_again():
    calls: list[str] = []

    def short(text: str) -> bool:
        calls.append(text)
        return len(text) < 4

    out = written("abc", constrained.regex("[a-z]*") & constrained.predicate(short))
    before = len(calls)
    assert [token.allowed for token in out.annotated_tokens] == [None] * len(out.tokens)
    assert len(calls) == before


def test_on_a_terminal_a_streamed_value_grows():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=60)
    chunks = list(Generator(ScriptedModel(VOCABULARY, '{"name":"Zoë"}'), JSON).stream("who?"))
    with live_display(shown=True, is_json=True, console=console) as follow:
        for chunk in chunks:
            follow(chunk.text)
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue()).replace("\r", "")
    assert drawn.rstrip().endswith('{\n  "name": "Zoë"\n}')


def test_a_pipe_gets_the_characters(capsys):
    with live_display(shown=True, is_json=True) as follow:
        for chunk in Generator(ScriptedModel(VOCABULARY, '{"name":"Zoë"}'), JSON).stream("who?"):
            follow(chunk.text)
    assert capsys.readouterr().err == '{"name":"Zoë"}\n'


def test_a_pickled_result_keeps_all_but_the_automaton():
    out = written()
    copy = pickle.loads(pickle.dumps(out))
    assert copy == out
    assert copy.automaton is None
    assert copy.annotated_tokens == []
    plain = io.StringIO()
    copy.show(file=plain)
    assert plain.getvalue().startswith(out.text)


def test_the_repr_of_an_output_is_a_line_without_token_ids():
    out = written()
    assert repr(out).startswith(f"Output({out.value!r}, finish='")
    assert f", {len(out.tokens)} tokens in {out.stats.forwards} forward passes)" in repr(out)
    assert repr(out.stats).startswith(
        f"Stats({out.stats.prompt_tokens} prompt tokens, {len(out.tokens)} tokens in "
    )
    for line in (repr(out), repr(out.stats)):
        assert "\n" not in line
        assert len(line) < 160
