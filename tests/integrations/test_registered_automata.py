"""Automata that an engine in this process is given by name: requests of others cannot name what was not registered."""

from __future__ import annotations

import gc

import pytest

from constrained.automaton import compile
from constrained.automaton.cache import register
from constrained.constraint import regex
from constrained.errors import ConstraintError
from constrained.integrations.engines.automata import Automata
from constrained.integrations.engines.settings import VllmSettings
from constrained.integrations.engines.trial import Trial
from tests.support.tokenizers_fixtures import small_bpe_vocabulary


def test_a_registered_automaton_is_used_as_it_is_and_nothing_else_is() -> None:
    vocabulary = small_bpe_vocabulary()
    automaton = compile(regex("[ab]{3}"), vocabulary)
    automata, given = Automata(vocabulary, VllmSettings()), {"grammar": register(automaton)}
    trial = Trial(vocabulary, VllmSettings())
    try:
        assert automata.compile(given) is automaton
        assert automata.compile(given, vocabulary.eos_ids) is automaton
        assert trial.shortest(given) == automaton.shortest_completion(automaton.start)
        with pytest.raises(ConstraintError):  # other ends of sequence are another automaton
            automata.compile(given, [5])
        with pytest.raises(ConstraintError):
            automata.compile({"grammar": "%constrained 1"})
        del automaton
        gc.collect()
        with pytest.raises(ConstraintError):
            automata.compile(given)
    finally:
        trial.close()
