"""The drafts of one text: where it stands, what its sources say, and what they learn when it goes on."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

from spec.builder import ReferenceDraft, build_draft
from spec.memory import ConstraintMemory, DraftMemory
from spec.pieces import Retokenizer
from spec.place import DraftContext, DraftRequest
from spec.protocols import DEAD, DraftAutomaton
from spec.sources import (
    DRAFT_SOURCES,
    DraftSource,
    ForcedTokens,
    PromptLookup,
    SlotNGrams,
    SuffixLookup,
    TokenNGrams,
    TokenRecycling,
)
from spec.sources.counts import ContextCounts
from spec.sources.forced import ForcedLiterals
from spec.tree import NO_NODE, ROOT, ReferenceDraftTree

_PROMPT = 4096  # tokens of a prompt, from its end, whose n-grams are learned


class ReferenceDrafter:
    """Drafts for one text.

    Attributes:
        context: the end of the text.
        sources: by number; None for those that are left out.
        nodes: nodes that were read so far.
        hits: of these, how many became tokens of the text.
        drafted: nodes that were read, by source; a node that two sources guessed counts for both.
        accepted: of these, how many became tokens of the text.
    """

    def __init__(
        self,
        automaton: DraftAutomaton,
        retokenizer: Retokenizer,
        memory: DraftMemory,
        constraint_memory: ConstraintMemory,
        *,
        prompt: Sequence[int] = (),
        source_names: Collection[str] = DRAFT_SOURCES,
        literals: ForcedLiterals | None = None,
        is_json: bool = True,
        chain_drafts: bool = False,
    ) -> None:
        """Reads the prompt.

        Args:
            automaton: what may be said.
            retokenizer: how its vocabulary writes bytes.
            memory: what was learned, and learns on.
            constraint_memory: the same, of this constraint.
            prompt: ids.
            source_names: of the sources to use.
            literals: what `ForcedTokens` found out about this automaton.
            is_json: texts are JSON.
            chain_drafts: draft chains, not trees.
        """
        self.memory = memory
        self.chain_drafts = chain_drafts
        request = DraftRequest(automaton, retokenizer, is_json)
        self.context = DraftContext.start(request, automaton.start, tuple(prompt))  # type: ignore[attr-defined]
        self.source_names = source_names
        with memory.lock:
            self.sources = self._open(memory, constraint_memory, prompt, literals)
        self.drafted_total = self.accepted_total = 0
        self.drafted_by_source = [0] * len(DRAFT_SOURCES)
        self.accepted_by_source = [0] * len(DRAFT_SOURCES)
        self._draft: ReferenceDraft | None = None
        self._node = ROOT
        self._read = 0

    def _open(
        self,
        memory: DraftMemory,
        constraint_memory: ConstraintMemory,
        prompt: Sequence[int],
        literals: ForcedLiterals | None,
    ) -> list[DraftSource | None]:
        own = TokenNGrams(ContextCounts(1 << 16))
        if "ngram" in self.source_names:
            own.learn_prompt(prompt[-_PROMPT:])
        tokens = self.context.request.automaton.vocabulary.tokens
        document = b"".join(tokens[id] for id in prompt) if "copying" in self.source_names else b""
        made: list[tuple[str, DraftSource]] = [
            ("forced", ForcedTokens(literals)),
            ("ngram", own),
            ("skeleton", SlotNGrams(constraint_memory.slots, memory.slots)),
            ("copying", PromptLookup(document)),
            ("suffix", SuffixLookup(constraint_memory.output_history)),
            ("recycle", TokenRecycling(memory.recycled_tokens)),
            ("ngram", TokenNGrams(constraint_memory.ngrams, 1)),
            ("ngram", TokenNGrams(memory.ngrams, 2)),
        ]
        return [source if name in self.source_names else None for name, source in made]

    def draft(self, nodes: int, depth: int = 1 << 30) -> ReferenceDraftTree:
        """The best tree at the end of the text.

        Args:
            nodes: how many it has at most.
            depth: how far it reaches at most.
        """
        with self.memory.lock:
            self._draft = build_draft(
                self.context, self.sources, self.memory.calibration, nodes, depth, chain=self.chain_drafts
            )
        self._node = ROOT
        return self._draft.tree

    def mark_verified(self, nodes: int) -> None:
        """So many nodes of the tree were read by the model, the first ones: they are counted as drafted."""
        if self._draft is not None:
            for bits in self._draft.tree.sources[1 : nodes + 1]:
                self._count(self.drafted_by_source, bits)
            self.drafted_total += nodes
        self._read = nodes

    def prime(self, tokens: Sequence[int]) -> None:
        """Learns the names of a made-up text of the constraint, and their order; nothing of its values."""
        skeleton, place = self.sources[DRAFT_SOURCES.index("skeleton")], self.context
        if not isinstance(skeleton, SlotNGrams) or place.json_path is None:
            return
        with self.memory.lock:
            for token in tokens:
                if place.json_path is not None and place.json_path.kind != "value":
                    skeleton.counts.learn(place.json_path, token)
                place = place.advance(token, DEAD)

    def observe_top_tokens(self, top_tokens: list[int]) -> None:
        """What the model finds likely after the last token, best first."""
        if "recycle" in self.source_names and self.context.recent_tokens:
            with self.memory.lock:
                self.memory.recycled_tokens[self.context.recent_tokens[-1]] = tuple(top_tokens)

    def copy(self) -> ReferenceDrafter:
        """Drafts for a text that begins as this one does."""
        twin = copy.copy(self)
        twin.drafted_by_source, twin.accepted_by_source = (
            list(self.drafted_by_source),
            list(self.accepted_by_source),
        )
        return twin

    def commit(self, token: int) -> None:
        """The text went on with a token, which is no end of it."""
        with self.memory.lock:
            self._judge(token)
            place = self.context
            for source in self.sources:
                if source is not None:
                    source.learn(place, token)
            self.context = place.advance(token, place.request.automaton.next(place.state, token))

    def _judge(self, token: int) -> None:
        """Counts which guesses about this token were right; those that the automaton refuses were never made."""
        draft, node = self._draft, self._node
        if draft is None or node == NO_NODE:
            return
        calibration, automaton = self.memory.calibration, self.context.request.automaton
        state = self.context.state
        for guess, kind in draft.proposals.get(node, ()):
            if guess == token or automaton.next(state, guess) != DEAD:
                calibration.record(kind, guess == token)
        self._node = draft.tree.child(node, token)
        if NO_NODE < self._node <= self._read:
            self.accepted_total += 1
            self._count(self.accepted_by_source, draft.tree.sources[self._node])
        else:
            self._node = NO_NODE

    def _count(self, counts: list[int], bits: int) -> None:
        """A source counts once, in however many scopes it guessed."""
        if bits >> len(DRAFT_SOURCES):
            bits |= 1 << DRAFT_SOURCES.index("ngram")
        for number in range(len(DRAFT_SOURCES)):
            counts[number] += bits >> number & 1
