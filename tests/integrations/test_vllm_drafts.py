"""Drafts inside vLLM, without vLLM: a loop that verifies drafts as the engine does, with a scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constrained.errors import InvalidArgument
from constrained.integrations.engines.automata import Automata
from constrained.integrations.engines.request_grammar import RequestGrammar
from constrained.integrations.engines.settings import VllmSettings
from constrained.integrations.vllm.drafts import EngineDrafts, Proposer
from constrained.vocabulary import Vocabulary
from tests.support.finite import FiniteAutomaton

BYTES = Vocabulary.from_bytes([bytes([i]) for i in range(256)] + [b"<e>"], [256])
SCHEMA = {
    "type": "object",
    "properties": {"surname": {"type": "string"}, "occupation": {"enum": ["teacher", "baker", "doctor"]}},
    "required": ["surname", "occupation"],
    "additionalProperties": False,
}


class Engine:
    """Steps of vLLM's engine over requests whose completions are known."""

    def __init__(self, drafts: EngineDrafts) -> None:
        self.drafts = drafts
        self.passes = 0
        self.proposed = 0

    def run(self, automaton: Any, texts: list[str], prompt: bytes = b"") -> list[str]:
        wanted = [[*text.encode(), 256] for text in texts]
        grammars = [RequestGrammar(automaton, 300) for _ in texts]
        states = [self.drafts.request(grammar, list(prompt)) for grammar in grammars]
        written: list[list[int]] = [[] for _ in texts]
        proposals: list[list[int]] = [[] for _ in texts]
        while live := [i for i in range(len(texts)) if written[i] != wanted[i]]:
            self.passes += 1
            self.drafts.begin_pass([str(i) for i in live], {str(i): proposals[i] for i in live})
            for i in live:
                new: list[int] = []
                rest = wanted[i][len(written[i]) :]
                for draft, token in zip([*proposals[i], -1], rest, strict=False):
                    new.append(token)
                    if draft != token:
                        break
                assert grammars[i].append(new)
                written[i] += new
                drafts = states[i]
                assert drafts is not None
                self.drafts.commit(drafts, new, [256])
            for i in live:
                drafts = states[i]
                assert drafts is not None
                proposals[i] = self.drafts.propose(drafts, grammars[i]) if written[i] != wanted[i] else []
                assert grammars[i].validate_tokens(proposals[i]) == proposals[i]
                self.proposed += len(proposals[i])
        return [bytes(tokens[:-1]).decode() for tokens in written]


def texts(count: int) -> list[str]:
    jobs = ("teacher", "baker", "doctor")
    return [json.dumps({"surname": f"N{i:03}", "occupation": jobs[i % 3]}) for i in range(count)]


def test_drafts_are_valid_bounded_and_save_passes() -> None:
    automaton = Automata(BYTES, VllmSettings()).compile({"json": SCHEMA})
    engine = Engine(EngineDrafts(8, adapts=False))
    wanted = texts(6)
    assert [text for one in wanted for text in engine.run(automaton, [one])] == wanted
    tokens = sum(len(text) + 1 for text in wanted)
    assert engine.passes * 3 < tokens  # names are forced or learned: most of a text
    assert engine.proposed <= engine.passes * 8
    before = engine.passes
    assert engine.run(automaton, wanted) == wanted  # as a batch, and learned by now
    assert engine.passes - before < max(map(len, wanted)) / 3


def test_a_budget_without_measurements_drafts_nothing() -> None:
    automaton = Automata(BYTES, VllmSettings()).compile({"json": SCHEMA})
    engine = Engine(EngineDrafts(8))
    wanted = texts(1)
    engine.drafts._budget.balance = -1e9  # never pays
    assert engine.run(automaton, wanted) == wanted
    assert engine.proposed == 0
    assert engine.passes == len(wanted[0]) + 1


def test_an_automaton_without_a_table_gets_no_drafts() -> None:
    automaton = FiniteAutomaton(["a", "b"], BYTES)
    assert EngineDrafts(8).request(RequestGrammar(automaton), [1]) is None


def test_the_proposer_is_refused_without_the_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only where it is switched off: VLLM_PLUGINS may leave it out."""
    monkeypatch.setenv("CONSTRAINED_VLLM", "1")
    with pytest.raises(InvalidArgument, match=r"set CONSTRAINED_VLLM=1; leave VLLM_PLUGINS unset"):
        Proposer(None)
    monkeypatch.setattr(VllmSettings, "installed", True)
    assert Proposer(None).propose([[1], []], 3, None, slot_mappings=None) == [[], []]
