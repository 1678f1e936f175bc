"""The drafter of one sequence: its context, what its sources propose, and what they learn from committed tokens."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

from constrained.spec.sources import DRAFT_SOURCES, merge_ngram_scopes
from tests.reference.spec.builder import ReferenceDraft, build_draft
from tests.reference.spec.context import DraftContext, DraftRequest
from tests.reference.spec.json_path import JsonPath, advance
from tests.reference.spec.layout import LayoutReader, read_layout
from tests.reference.spec.memory import ReferenceMemory
from tests.reference.spec.protocols import DEAD, Automaton
from tests.reference.spec.retokenizer import Retokenizer
from tests.reference.spec.sources import (
    DocumentSpans,
    DraftSource,
    ForcedTokens,
    MemberNames,
    PromptLookup,
    SlotFavourites,
    SlotNGrams,
    SuffixLookup,
    TokenNGrams,
    TokenRecycling,
)
from tests.reference.spec.sources.counts import ContextCounts
from tests.reference.spec.tree import NO_NODE, ROOT, ReferenceDraftTree

MAX_PROMPT = 4096
"""Tokens of a prompt, from its end, whose n-grams are learned."""


class ReferenceDrafter:
    """See `constrained.spec.drafts.DrafterProtocol`.

    Attributes:
        context: the end of the sequence.
        sources: by number; None for those that are not used.
    """

    def __init__(
        self,
        automaton: Automaton,
        memory: ReferenceMemory,
        *,
        prompt: Sequence[int] = (),
        source_names: Collection[str] = DRAFT_SOURCES,
        is_json: bool = True,
        chain_drafts: bool = False,
    ) -> None:
        """A drafter; learns the n-grams of the prompt.

        Args:
            automaton: draft tokens follow its transitions.
            memory: what was learned; it is changed.
            prompt: token ids.
            source_names: the sources to use.
            is_json: completions are JSON.
            chain_drafts: draft chains, not trees.
        """
        self.memory = memory
        self.chain_drafts = chain_drafts
        request = DraftRequest(automaton, Retokenizer(automaton.vocabulary), is_json)
        self.context = DraftContext.start(request, automaton.start, tuple(prompt))
        self.source_names = source_names
        self.layout = memory.constraint.layout
        self.favourites = SlotFavourites()
        self.sources = self._make_sources(prompt)
        self.drafted_total = self.accepted_total = 0
        self.drafted_by_source = [0] * len(DRAFT_SOURCES)
        self.accepted_by_source = [0] * len(DRAFT_SOURCES)
        self._draft: ReferenceDraft | None = None
        self._node = ROOT
        self._verified = 0
        self._begun = False
        self._probed: list[JsonPath | None] = []

    def _make_sources(self, prompt: Sequence[int]) -> list[DraftSource | None]:
        memory, constraint_memory = self.memory, self.memory.constraint
        own = TokenNGrams(ContextCounts(1 << 16))
        if "ngram" in self.source_names:
            own.learn_prompt(prompt[-MAX_PROMPT:])
        tokens = self.context.request.automaton.vocabulary.tokens
        document = b"".join(tokens[id] for id in prompt)
        numbered: list[tuple[str, DraftSource]] = [
            (
                "forced",
                ForcedTokens(
                    constraint_memory.layout, document if "prompt_lookup" in self.source_names else b""
                ),
            ),
            ("ngram", own),
            ("slot_ngrams", SlotNGrams(constraint_memory.slots, memory.slots)),
            ("prompt_lookup", PromptLookup(document if "prompt_lookup" in self.source_names else b"")),
            ("suffix", SuffixLookup(constraint_memory.output_history)),
            ("token_recycling", TokenRecycling(memory.recycled_tokens)),
            ("slot_favourites", self.favourites),
            ("names", MemberNames(constraint_memory.names, lambda: self.layout)),
            ("spans", DocumentSpans(document, memory.value_shapes, lambda: self.layout)),
            ("ngram", TokenNGrams(constraint_memory.ngrams, 1)),
            ("ngram", TokenNGrams(memory.ngrams, 2)),
        ]
        return [source if name in self.source_names else None for name, source in numbered]

    def draft(self, nodes: int, depth: int = 1 << 30) -> ReferenceDraftTree:
        """The best draft tree of at most `nodes` nodes and `depth` levels."""
        self._draft = build_draft(
            self.context,
            self.sources,
            self.memory.calibration,
            self.memory.mixer,
            nodes,
            depth,
            chain=self.chain_drafts,
        )
        self._node = ROOT
        if "slot_favourites" in self.source_names and self.context.json_path is not None:
            paths = [place.json_path for place in self._draft.places]
            self._draft.tree.asked = [
                node
                for node, path in enumerate(paths)
                if path is not None and (path.kind == "value" or (path.kind == "key" and path.quoted))
            ]
        return self._draft.tree

    def probe(self, nodes: int) -> ReferenceDraftTree:
        """The openings of slots as branches, before the first token."""
        tree = ReferenceDraftTree(self.context.state)
        self._probed = [None]
        path = self.context.json_path
        asks = "slot_favourites" in self.source_names and not self.chain_drafts
        if self._begun or path is None or not asks:
            return tree
        pieces = self.context.request.automaton.vocabulary.tokens
        for opening in self.memory.constraint.openings:
            known = [ROOT, *tree.follow(opening)]
            missing = opening[len(known) - 1 :]
            if len(tree) + len(missing) > nodes + 1:
                continue
            node = known[-1]
            if not missing:
                tree.asked.append(node)
            for token in missing:
                node = tree.add(node, token, DEAD, 0.0)
                text = b"".join(pieces[tree.token[one]] for one in tree.path(node))
                here = advance(path, text)
                self._probed.append(here)
                begins_name = here.kind == "key" and here.partial == b'"'
                if begins_name or len(tree.path(node)) == len(opening):
                    tree.asked.append(node)
        return tree

    def observe_slot(self, node: int, top_tokens: list[int], probed: bool) -> None:
        """Tells which tokens the model ranks highest behind a node of the last tree, or of the last probe."""
        if probed:
            self.favourites.observe(self._probed[node], top_tokens, True)
        elif self._draft is not None:
            self.favourites.observe(self._draft.places[node].json_path, top_tokens, False)

    def mark_verified(self, nodes: int) -> None:
        """Tells that the model reads the first `nodes` nodes of the last tree."""
        if self._draft is not None:
            for bits in self._draft.tree.sources[1 : nodes + 1]:
                self._count(self.drafted_by_source, bits)
            self.drafted_total += nodes
        self._verified = nodes

    def prime(self, tokens: Sequence[int]) -> None:
        """Learns the names in an example completion, and their order; its values are ignored."""
        slots, context = self.sources[DRAFT_SOURCES.index("slot_ngrams")], self.context
        if not isinstance(slots, SlotNGrams) or context.json_path is None:
            return
        for token in tokens:
            self._learn_layout(context, token)
            if context.json_path is not None and context.json_path.kind != "value":
                slots.counts.learn(context.json_path, token)
            context = context.advance(token, DEAD)

    def observe_top_tokens(self, top_tokens: list[int]) -> None:
        """Tells which tokens the model ranks highest after the last token, best first."""
        if "token_recycling" in self.source_names and self.context.recent_tokens:
            self.memory.recycled_tokens[self.context.recent_tokens[-1]] = tuple(top_tokens)

    def copy(self) -> ReferenceDrafter:
        """An independent drafter in the present state."""
        twin = copy.copy(self)
        twin.favourites = copy.copy(self.favourites)
        twin.favourites.favourites = dict(self.favourites.favourites)
        twin.sources = [twin.favourites if one is self.favourites else one for one in self.sources]
        twin.drafted_by_source = list(self.drafted_by_source)
        twin.accepted_by_source = list(self.accepted_by_source)
        return twin

    def commit(self, token: int) -> None:
        """Appends a token, which is not an end-of-sequence token."""
        self._begun = True
        self._calibrate(token)
        context = self.context
        for source in self.sources:
            if source is not None:
                source.learn(context, token)
        self._learn_layout(context, token)
        self.context = context.advance(token, context.request.automaton.next(context.state, token))

    def _learn_layout(self, context: DraftContext, token: int) -> None:
        """The white space of the text, for this constraint's next texts too."""
        if context.json_path is None:
            return
        reader = LayoutReader.at(context.json_path, context.recent_bytes)
        self.layout = read_layout(reader, self.layout, context.request.automaton.vocabulary.tokens[token])
        self.memory.constraint.layout = self.layout
        forced = self.sources[DRAFT_SOURCES.index("forced")] if self.sources else None
        if isinstance(forced, ForcedTokens):
            forced.layout = self.layout

    def _calibrate(self, token: int) -> None:
        """Records which proposals for this token were right; those that the automaton refuses do not count."""
        draft, node = self._draft, self._node
        if draft is None or node == NO_NODE:
            return
        calibration, automaton = self.memory.calibration, self.context.request.automaton
        state = self.context.state
        for proposed, kind in draft.proposals.get(node, ()):
            if proposed == token or automaton.next(state, proposed) != DEAD:
                calibration.record(kind, proposed == token)
        for proposed, (place, features) in draft.candidates.get(node, {}).items():
            if proposed == token or automaton.next(state, proposed) != DEAD:
                self.memory.mixer.learn(place, features, proposed == token)
        self._node = draft.tree.child(node, token)
        if NO_NODE < self._node <= self._verified:
            self.accepted_total += 1
            self._count(self.accepted_by_source, draft.tree.sources[self._node])
        else:
            self._node = NO_NODE

    def _count(self, counts: list[int], bits: int) -> None:
        """Counts each source once, in however many scopes of n-grams it proposed."""
        bits = merge_ngram_scopes(bits)
        for number in range(len(DRAFT_SOURCES)):
            counts[number] += bits >> number & 1
