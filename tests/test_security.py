"""Every promise of `SECURITY.md` has a test that holds it: a promise without one, or a test that is gone, fails here."""

from __future__ import annotations

import ast
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import constrained
from constrained import json_schema, lark, regex, structural_tag
from constrained.errors import ConstrainedError

ROOT = Path(__file__).parents[1]

HELD_BY = {
    "A constraint cannot run code.": "test_security.py::test_nothing_in_a_constraint_is_loaded_or_run",
    "A constraint has bounded cost in the server.": "server/test_workers.py::test_what_takes_too_much_memory_is_refused",
    "The memory of the process is watched": "server/test_memory.py::test_a_request_is_refused_while_memory_is_low",
    "Work is counted, in the library as in the server.": "automaton/test_trial.py::"
    "test_a_call_that_takes_too_many_steps_refuses_the_constraint_and_names_the_text_before_it",
    "Nothing raises after the first token for its steps.": "automaton/test_trial.py::"
    "test_a_search_that_gives_up_leaves_tokens_out_and_raises_nothing",
    "A prompt costs what the model's context costs.": "prompting/test_context_length.py::"
    "test_the_cost_of_a_refusal_depends_on_the_context_alone",
    "A completion with slow masks ends.": "server/test_slow_draws.py::"
    "test_slow_draws_end_their_request_and_no_other",
    "Clients take turns": "server/test_round_robin.py::test_clients_take_turns_and_their_items_do_not_overtake",
    "Who a client is cannot be chosen by it.": "server/test_connections.py::"
    "test_clients_are_told_apart_by_what_a_trusted_proxy_says",
    "Pages of the web cannot use a server on their reader's machine": "server/test_connections.py::"
    "test_pages_of_the_web_have_to_ask_first",
    "A request is read in one way.": "server/test_connections.py::test_a_head_that_is_refused_ends_its_connection",
    "Large requests are prepared beside the server": "server/test_large_requests.py::"
    "test_its_limits_are_errors_of_the_request",
    "Images are data.": "server/test_images.py::test_what_is_no_image_is_refused",
    "Texts of users never become special tokens": "chat/test_user_texts.py::"
    "test_no_special_token_comes_of_two_texts_or_of_one_and_the_template",
    "Errors and logs quote no secrets.": "server/test_limits.py::"
    "test_an_error_is_logged_without_what_the_client_sent",
    "API keys are compared": "server/test_limits.py::test_one_of_several_keys_is_needed",
}
"""The first words of each promise -> the test."""


def test_every_promise_has_a_test_that_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    promised = text[text.index("## What is promised") : text.index("## What is not promised")]
    found = re.findall(r"^\* (?:\*\*(.+?)\*\*|(\w+ \w+ \w+ \w+))", promised, re.MULTILINE | re.DOTALL)
    promises = [" ".join((bold or plain).split()) for bold, plain in found]
    assert len(promises) == promised.count("\n* ")
    left = [promise for promise in promises if not promise.startswith(tuple(HELD_BY))]
    assert left == []
    assert len(promises) == len(HELD_BY)
    for place in HELD_BY.values():
        file, name = place.split("::")
        tree = ast.parse((ROOT / "tests" / file).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, place


@pytest.mark.parametrize(
    "make",
    [
        lambda url: json_schema({"$ref": url}),
        lambda url: json_schema({"$schema": url, "type": "integer"}),
        lambda url: json_schema({"$id": url, "properties": {"a": {"$ref": "other.json#/$defs/x"}}}),
        lambda url: json_schema({"const": "__import__('os').system('true')", "default": url}),
        lambda url: regex(r"(?{print(1)})|\$\(reboot\)"),
        lambda url: lark(f'%import "{url}" (a)\nstart: a'),
        lambda url: structural_tag(
            {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"$ref": url}}}
        ),
    ],
    ids=["ref", "schema", "id", "const", "regex", "import", "structural_tag"],
)
def test_nothing_in_a_constraint_is_loaded_or_run(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken as data or refused by name; what opened a connection, a file or a program would raise another error."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a constraint reached out")

    vocabulary = constrained.load().vocabulary
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("os.system", refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)
    for url in ("http://example.org/schema.json", "file:///etc/passwd", "https://[::1]/x"):
        with suppress(ConstrainedError):
            constrained.compile(make(url), vocabulary)
