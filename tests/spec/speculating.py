"""Models, drafters and runs for the tests of speculation."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import constrained
from constrained.automaton import Automaton
from constrained.decoding.speculation import Speculation
from constrained.spec.drafts import DrafterFactory
from constrained.spec.memory import DraftMemory
from constrained.spec.noise import GumbelNoise
from constrained.spec.prior import new_memory
from constrained.spec.sources import DRAFT_SOURCES
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary
from tests.support.enumerable_model import EnumerableModel
from tests.support.tokenizers_fixtures import small_bpe_vocabulary


def draft_passes(automaton: Automaton, memory: DraftMemory, key: str, tokens: Sequence[int]) -> int:
    """Passes that a text takes with trees of 32 nodes, of which the longest path that the text takes is accepted."""
    drafter, at, count = DrafterFactory(automaton, memory, key).new_drafter([]), 0, 0
    while at < len(tokens):
        tree, node = drafter.draft(32), 0
        drafter.mark_verified(len(tree) - 1)
        count += 1
        while at < len(tokens) and node >= 0:
            drafter.commit(tokens[at])
            node = tree.child(node, tokens[at])
            at += 1
    return count


def fresh(vocabulary: Vocabulary) -> Vocabulary:
    """The same vocabulary, in which nothing has been computed yet: no row of an automaton is known."""
    return Vocabulary.from_bytes(list(vocabulary.tokens), vocabulary.eos_ids)


@lru_cache(4)
def _prior_memory(tokens: tuple[bytes, ...], eos_ids: tuple[int, ...]) -> DraftMemory:
    return new_memory(Vocabulary.from_bytes(list(tokens), eos_ids))


def prior_memory(vocabulary: Vocabulary) -> DraftMemory:
    """What a generator begins with; spelled once for all vocabularies of the same tokens, which takes a third of a second."""
    return _prior_memory(tuple(vocabulary.tokens), tuple(vocabulary.eos_ids)).fork()


class Whim(FunctionModel):
    """A model whose logits are a hash of everything before, and lean towards a script."""

    def __init__(self, vocabulary: Vocabulary, script: bytes, margin: float) -> None:
        self.vocabulary = vocabulary
        self.script = script
        self.margin = margin

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return self.vocabulary.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def logits(self, prompt: list[int], tokens: list[int]) -> np.ndarray:
        digest = hashlib.blake2b(repr((prompt, tokens)).encode(), digest_size=8).digest()
        logits = np.random.default_rng(int.from_bytes(digest, "little")).normal(size=self.vocabulary.size)
        text = self.vocabulary.decode(tokens)
        at = len(text) % len(self.script)
        for length in range(1, 6):
            token = self.vocabulary.ids_by_bytes.get(self.script[at : at + length])
            if token is not None:
                logits[token] += self.margin * length / 3
        return logits


class Clerk(FunctionModel):
    """A model that knows a record: behind a name it leans towards its value, whatever stands before."""

    def __init__(self, vocabulary: Vocabulary, record: dict[str, Any]) -> None:
        self.vocabulary = vocabulary
        self.members = {json.dumps(name) + ": ": json.dumps(value) for name, value in record.items()}
        self.passes = 0

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return self.vocabulary.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def logits(self, prompt: list[int], tokens: list[int]) -> np.ndarray:
        digest = hashlib.blake2b(repr((prompt, tokens)).encode(), digest_size=8).digest()
        logits = np.random.default_rng(int.from_bytes(digest, "little")).normal(size=self.vocabulary.size)
        text = self.vocabulary.decode(tokens).decode(errors="replace")
        names = list(self.members)
        last = max(names, key=lambda name: text.rfind(name))
        at = text.rfind(last)
        following = names[names.index(last) + 1 :]
        ahead = (
            self.members[last] + (", " + following[0] if following else "}") if at >= 0 else "{" + names[0]
        )
        said = text[at + len(last) :] if at >= 0 else text
        if ahead.startswith(said):
            for length in range(1, 12):
                token = self.vocabulary.ids_by_bytes.get(ahead[len(said) :].encode()[:length])
                if token is not None:
                    logits[token] += 6 + length
        return logits


Proposer = Callable[[Automaton, int, Sequence[int]], Sequence[int]]
"""The tokens that may follow a state and the tokens so far, the likeliest first."""


def always_wrong(automaton: Automaton, state: int, tokens: Sequence[int]) -> list[int]:
    """Proposes tokens that seldom come."""
    return [(state * 7 + i) % automaton.vocabulary.size for i in range(6)]


def peeking(seed: int, prompt: int) -> Proposer:
    """Knows the noise of the draws and proposes the tokens that it favours."""
    noise = GumbelNoise(seed)

    def propose(automaton: Automaton, state: int, tokens: Sequence[int]) -> Sequence[int]:
        keys = noise.gumbel(prompt + len(tokens), np.arange(automaton.vocabulary.size))
        return np.argsort(-keys)[:4].tolist()

    return propose


def foreseeing(completion: Sequence[int]) -> Proposer:
    """Knows the completion: every proposal is accepted."""
    whole = list(completion)
    return lambda automaton, state, tokens: whole[len(tokens) :][: whole[: len(tokens)] == list(tokens)]


ADVERSARIES: dict[str, Callable[[int, int], Proposer]] = {
    "wrong": lambda seed, prompt: always_wrong,
    "peeking": peeking,
}


class ScriptedTree:
    """A draft tree in lists; see `constrained.spec._core.Tree`."""

    def __init__(self, state: int) -> None:
        self.token, self.parent, self.state = [-1], [-1], [state]
        self.sources, self.depth, self.path_probability = [0], [0], [1.0]
        self.asked: list[int] = []

    def add(self, parent: int, token: int, state: int) -> None:
        self.token.append(token)
        self.parent.append(parent)
        self.state.append(state)
        self.sources.append(1)
        self.depth.append(self.depth[parent] + 1)
        self.path_probability.append(0.9 ** self.depth[-1])

    def child(self, node: int, token: int) -> int:
        children = (
            i for i, pair in enumerate(zip(self.parent, self.token, strict=True)) if pair == (node, token)
        )
        return next(children, -1)

    def path(self, node: int) -> list[int]:
        return [*self.path(self.parent[node]), node] if node else []

    def __len__(self) -> int:
        return len(self.token)


class ScriptedDrafter:
    """A drafter of trees of what a function proposes, level by level; see `constrained.spec._core.Drafter`."""

    def __init__(self, automaton: Automaton, propose: Proposer) -> None:
        self._automaton, self._propose = automaton, propose
        self._tokens: tuple[int, ...] = ()
        self._tree, self._node, self._verified = ScriptedTree(automaton.start), 0, 0
        self._state = automaton.start
        self.drafted_total = self.accepted_total = 0

    @property
    def drafted_by_source(self) -> list[int]:
        return [self.drafted_total] + [0] * (len(DRAFT_SOURCES) - 1)

    @property
    def accepted_by_source(self) -> list[int]:
        return [self.accepted_total] + [0] * (len(DRAFT_SOURCES) - 1)

    def draft(
        self, nodes: int, depth: int = 1 << 30, assisted: Sequence[tuple[int, float]] = ()
    ) -> ScriptedTree:
        tree, node = ScriptedTree(self._state), 0
        ends = self._automaton.vocabulary.eos_ids
        while node < len(tree) and tree.depth[node] < depth:
            path = (*self._tokens, *(tree.token[i] for i in tree.path(node)))
            for token in dict.fromkeys(self._propose(self._automaton, tree.state[node], path)):
                after = self._automaton.next(tree.state[node], token)
                if after and token not in ends and len(tree) <= nodes:
                    tree.add(node, token, after)
            node += 1
        self._tree, self._node, self._verified = tree, 0, 0
        return tree

    def probe(self, nodes: int) -> ScriptedTree:
        return ScriptedTree(self._state)

    def mark_verified(self, nodes: int) -> None:
        self._verified = nodes
        self.drafted_total += nodes

    def commit(self, token: int) -> None:
        self._node = self._tree.child(self._node, token) if self._node >= 0 else -1
        if 0 < self._node <= self._verified:
            self.accepted_total += 1
        else:
            self._node = -1
        self._tokens += (token,)
        self._state = self._automaton.next(self._state, token)

    def observe_slot(self, node: int, top_tokens: list[int], probed: bool) -> None: ...

    def prime(self, tokens: Sequence[int]) -> None: ...

    def copy(self) -> ScriptedDrafter:
        return copy.copy(self)


def generator(
    model: Any,
    constraint: Any,
    sampler: Any,
    draft: Speculation | None,
    adversary: Proposer | None = None,
) -> constrained.Generator:
    """A generator over an automaton of its own; an adversary takes the place of the drafter."""
    automaton = constrained.compile(constraint, model.vocabulary)
    made = constrained.Generator(model, automaton, sampler=sampler, speculation=draft)
    if adversary is not None:
        drafting = made._drafting
        assert drafting is not None

        drafting.drafter = lambda prompt: ScriptedDrafter(automaton, adversary)  # type: ignore[method-assign]
    return made


def letters(seed: int, depth: int = 6) -> EnumerableModel:
    """A model over three letters with a peaked distribution."""
    return EnumerableModel(seed=seed, depth=depth, spread=0.4)


def words(script: bytes, margin: float = 5.0) -> Whim:
    """A whimsical model over a small byte-pair vocabulary."""
    return Whim(fresh(small_bpe_vocabulary()), script, margin)


def facts(output: Any) -> tuple[Any, ...]:
    """What speculation must not change."""
    weight = None if math.isnan(output.log_weight) else output.log_weight
    return (
        output.tokens,
        output.text,
        output.logprob,
        weight,
        output.finish,
        output.cut,
        output.stats.checks,
    )


def tree_path(parents: list[int], node: int) -> list[int]:
    """The nodes from a root to a node of a tree in parents."""
    found = []
    while node >= 0:
        found.append(node)
        node = parents[node]
    return found[::-1]
