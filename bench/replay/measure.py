"""The forward passes that one recorded sequence takes with speculation, or with prompt lookup (Saxena 2023)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

from constrained.automaton import NO_LIMIT, Automaton
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.spec.drafts import LazyDrafter

_END = -1
_MATCH = 3
"""Tokens that prompt lookup looks up at most."""
_AHEAD = 10


@dataclass(slots=True)
class ReplayCounts:
    """What a text took.

    Attributes:
        draws: tokens that were drawn: those of the text, and an end of sequence where something else could follow.
        passes: of the model; the prompt's is the first one.
        nodes: draft tokens that were verified.
        promised: draft tokens that were expected to be accepted, see `constrained.spec.acceptance`.
        accepted: draft tokens that were accepted.
        drafting: seconds of processor time for drafting.
        walking: the same, on following and learning.
        texts: that were replayed.
    """

    draws: int = 0
    passes: int = 0
    nodes: int = 0
    promised: float = 0.0
    accepted: int = 0
    drafting: float = 0.0
    walking: float = 0.0
    texts: int = 1

    def add(self, other: ReplayCounts) -> None:
        """Adds up."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def required_draws(automaton: Automaton, tokens: Sequence[int]) -> list[int] | None:
    """What a model has to draw to say these tokens; None where they are no complete text."""
    states = automaton.walk(automaton.start, tokens)
    if len(states) < len(tokens) or not states or not automaton.accepts(states[-1]):
        return None
    ends = AutomatonCandidates(automaton, states[-1], NO_LIMIT).only_ends
    return list(tokens) if ends else [*tokens, _END]


def replay(draws: Sequence[int], drafter: LazyDrafter, nodes: int) -> ReplayCounts:
    """Passes with trees of so many nodes.

    Args:
        draws: what comes, see `required_draws`.
        drafter: proposes draft tokens, and learns from the sequence.
        nodes: of a tree, at most.
    """
    done, at = ReplayCounts(len(draws)), 0
    while at < len(draws):
        begun = time.process_time()
        tree = drafter.draft(nodes)
        done.drafting += time.process_time() - begun
        done.passes += 1
        done.nodes += len(tree) - 1
        done.promised += sum(drafter.predicted_acceptance())
        begun = time.process_time()
        drafter.mark_verified(len(tree) - 1)
        node = 0
        while node >= 0 and at < len(draws):
            token = draws[at]
            at += 1
            if token == _END:
                break
            drafter.commit(token)
            node = tree.child(node, token)
            done.accepted += node > 0
        done.walking += time.process_time() - begun
    return done


def prompt_lookup(tokens: Sequence[int]) -> list[int]:
    """The tokens after the latest earlier occurrence of the last tokens; the longest match counts.

    Args:
        tokens: ids of the prompt and of the text so far.
    """
    for length in range(min(_MATCH, len(tokens) - 1), 0, -1):
        end = tuple(tokens[-length:])
        for at in range(len(tokens) - length - 1, -1, -1):
            if tuple(tokens[at : at + length]) == end:
                return list(tokens[at + length : at + length + _AHEAD])
    return []


def replay_prompt_lookup(draws: Sequence[int], prompt: Sequence[int]) -> ReplayCounts:
    """Passes with prompt lookup."""
    done, at = ReplayCounts(len(draws)), 0
    tokens = list(prompt)
    while at < len(draws):
        begun = time.process_time()
        draft = prompt_lookup(tokens)
        done.drafting += time.process_time() - begun
        done.passes += 1
        done.nodes += len(draft)
        for token in [*draft, None]:
            if at == len(draws):
                break
            tokens.append(draws[at])
            at += 1
            if draws[at - 1] != token:
                break
    return done
