"""Models, drafters and runs for the tests of speculation."""

from __future__ import annotations

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
from constrained.testing import EnumerableModel
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary
from tests.reference.spec.context import DraftContext
from tests.reference.spec.drafter import ReferenceDrafter
from tests.reference.spec.memory import ReferenceMemory
from tests.reference.spec.sources import DraftSource, DraftToken
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


class AlwaysWrong(DraftSource):
    """Guesses tokens that seldom come, and is sure of them."""

    def propose(self, place: DraftContext) -> list[DraftToken]:
        size = len(place.request.automaton.vocabulary.tokens)
        return [((place.state * 7 + i) % size, 0.99, i) for i in range(6)]


class AlwaysInvalid(DraftSource):
    """Guesses tokens that the automaton refuses, ends of sequence among them."""

    def propose(self, place: DraftContext) -> list[DraftToken]:
        automaton = place.request.automaton
        size = len(automaton.vocabulary.tokens)
        refused = [token for token in range(size) if not automaton.next(place.state, token)][:6]
        return [(token, 1.0, 0) for token in [*refused, *automaton.vocabulary.eos_ids]]


class Peeking(DraftSource):
    """Knows the noise of the draws and proposes the tokens that it favours."""

    def __init__(self, seed: int, prompt: int) -> None:
        self.noise = GumbelNoise(seed)
        self.prompt = prompt

    def propose(self, place: DraftContext) -> list[DraftToken]:
        ids = np.arange(len(place.request.automaton.vocabulary.tokens))
        position = self.prompt + getattr(place, "depth", len(place.recent_bytes))
        best = np.argsort(-self.noise.gumbel(position, ids))[:4]
        return [(int(token), 0.5, rank) for rank, token in enumerate(best)]


class Foreseeing(DraftSource):
    """Knows the completion: every proposal is accepted."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)

    def propose(self, place: DraftContext) -> list[DraftToken]:
        tokens_so_far = bytes(place.recent_bytes)
        at, tokens = 0, b""
        pieces = place.request.automaton.vocabulary.tokens
        while at < len(self.tokens) and len(tokens) < len(tokens_so_far):
            tokens += pieces[self.tokens[at]]
            at += 1
        return [(self.tokens[at], 1.0, 0)] if tokens[-64:] == tokens_so_far and at < len(self.tokens) else []


ADVERSARIES: dict[str, Callable[[int, int], DraftSource]] = {
    "wrong": lambda seed, prompt: AlwaysWrong(),
    "invalid": lambda seed, prompt: AlwaysInvalid(),
    "peeking": Peeking,
}


def generator(
    model: Any,
    constraint: Any,
    sampler: Any,
    draft: Speculation | None,
    adversary: DraftSource | None = None,
) -> constrained.Generator:
    """A generator over an automaton of its own; an adversary takes the place of all sources."""
    automaton = constrained.compile(constraint, model.vocabulary)
    made = constrained.Generator(model, automaton, sampler=sampler, speculation=draft)
    if adversary is not None:
        drafting = made._drafting
        assert drafting is not None

        def drafter(prompt: Sequence[int]) -> ReferenceDrafter:
            made = ReferenceDrafter(automaton, ReferenceMemory(), prompt=prompt, source_names=())
            made.sources = [adversary]
            return made

        drafting.drafter = drafter  # type: ignore[method-assign]
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
