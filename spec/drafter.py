"""The drafts of one text: where it stands, what its sources say, and what they learn when it goes on."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

from spec.builder import Draft, build
from spec.memory import Memory, Scope
from spec.pieces import Pieces
from spec.place import Place, Request
from spec.protocols import DEAD, Automaton
from spec.sources import SOURCES, Copying, Forced, NGram, Recycle, Skeleton, Source, Suffix
from spec.sources.counts import Counts
from spec.sources.forced import Literals
from spec.tree import NONE, ROOT, DraftTree

_PROMPT = 4096  # tokens of a prompt, from its end, whose n-grams are learned


class Drafter:
    """Drafts for one text.

    Attributes:
        place: the end of the text.
        sources: by number; None for those that are left out.
        nodes: nodes that were read so far.
        hits: of these, how many became tokens of the text.
        drafted: nodes that were read, by source; a node that two sources guessed counts for both.
        accepted: of these, how many became tokens of the text.
    """

    def __init__(
        self,
        automaton: Automaton,
        pieces: Pieces,
        memory: Memory,
        scope: Scope,
        *,
        prompt: Sequence[int] = (),
        names: Collection[str] = SOURCES,
        literals: Literals | None = None,
        is_json: bool = True,
        chains: bool = False,
    ) -> None:
        """Reads the prompt.

        Args:
            automaton: what may be said.
            pieces: how its vocabulary writes bytes.
            memory: what was learned, and learns on.
            scope: the same, of this constraint.
            prompt: ids.
            names: of the sources to use.
            literals: what `Forced` found out about this automaton.
            is_json: texts are JSON.
            chains: draft chains, not trees.
        """
        self.memory = memory
        self.chains = chains
        request = Request(automaton, pieces, is_json)
        self.place = Place.start(request, automaton.start, tuple(prompt))  # type: ignore[attr-defined]
        self.names = names
        with memory.lock:
            self.sources = self._open(memory, scope, prompt, literals)
        self.nodes = self.hits = 0
        self.drafted = [0] * len(SOURCES)
        self.accepted = [0] * len(SOURCES)
        self._draft: Draft | None = None
        self._node = ROOT
        self._read = 0

    def _open(
        self, memory: Memory, scope: Scope, prompt: Sequence[int], literals: Literals | None
    ) -> list[Source | None]:
        own = NGram(Counts(1 << 16))
        if "ngram" in self.names:
            own.read(prompt[-_PROMPT:])
        tokens = self.place.request.automaton.vocabulary.tokens
        document = b"".join(tokens[id] for id in prompt) if "copying" in self.names else b""
        made: list[tuple[str, Source]] = [
            ("forced", Forced(literals)),
            ("ngram", own),
            ("skeleton", Skeleton(scope.slots, memory.slots)),
            ("copying", Copying(document)),
            ("suffix", Suffix(scope.past)),
            ("recycle", Recycle(memory.rows)),
            ("ngram", NGram(scope.ngrams, 1)),
            ("ngram", NGram(memory.ngrams, 2)),
        ]
        return [source if name in self.names else None for name, source in made]

    def draft(self, nodes: int, depth: int = 1 << 30) -> DraftTree:
        """The best tree at the end of the text.

        Args:
            nodes: how many it has at most.
            depth: how far it reaches at most.
        """
        with self.memory.lock:
            self._draft = build(
                self.place, self.sources, self.memory.calibration, nodes, depth, chain=self.chains
            )
        self._node = ROOT
        return self._draft.tree

    def read(self, nodes: int) -> None:
        """So many nodes of the tree were read by the model, the first ones: they are counted as drafted."""
        if self._draft is not None:
            for bits in self._draft.tree.sources[1 : nodes + 1]:
                self._count(self.drafted, bits)
            self.nodes += nodes
        self._read = nodes

    def rehearse(self, tokens: Sequence[int]) -> None:
        """Learns the names of a made-up text of the constraint, and their order; nothing of its values."""
        skeleton, place = self.sources[SOURCES.index("skeleton")], self.place
        if not isinstance(skeleton, Skeleton) or place.path is None:
            return
        with self.memory.lock:
            for token in tokens:
                if place.path is not None and place.path.kind != "value":
                    skeleton.counts.learn(place.path, token)
                place = place.after(token, DEAD)

    def see(self, favourites: list[int]) -> None:
        """What the model finds likely after the last token, best first."""
        if "recycle" in self.names and self.place.tail:
            with self.memory.lock:
                self.memory.rows[self.place.tail[-1]] = tuple(favourites)

    def copy(self) -> Drafter:
        """Drafts for a text that begins as this one does."""
        twin = copy.copy(self)
        twin.drafted, twin.accepted = list(self.drafted), list(self.accepted)
        return twin

    def commit(self, token: int) -> None:
        """The text went on with a token, which is no end of it."""
        with self.memory.lock:
            self._judge(token)
            place = self.place
            for source in self.sources:
                if source is not None:
                    source.learn(place, token)
            self.place = place.after(token, place.request.automaton.next(place.state, token))

    def _judge(self, token: int) -> None:
        """Counts which guesses about this token were right; those that the automaton refuses were never made."""
        draft, node = self._draft, self._node
        if draft is None or node == NONE:
            return
        calibration, automaton = self.memory.calibration, self.place.request.automaton
        state = self.place.state
        for guess, kind in draft.guesses.get(node, ()):
            if guess == token or automaton.next(state, guess) != DEAD:
                calibration.learn(kind, guess == token)
        self._node = draft.tree.child(node, token)
        if NONE < self._node <= self._read:
            self.hits += 1
            self._count(self.accepted, draft.tree.sources[self._node])
        else:
            self._node = NONE

    def _count(self, counts: list[int], bits: int) -> None:
        """A source counts once, in however many scopes it guessed."""
        if bits >> len(SOURCES):
            bits |= 1 << SOURCES.index("ngram")
        for number in range(len(SOURCES)):
            counts[number] += bits >> number & 1
