"""The forward pass of the decoding loop: unread tokens and draft trees in, logits by node out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from constrained.automaton.forced_tokens import forced_token
from constrained.decoding.assistant import assisted
from constrained.decoding.planned_draws import plan_draws
from constrained.decoding.prompt_questions import PromptQuestions
from constrained.decoding.prompt_reader import LONGEST_PROMPT, MOST_NODES, PIECE_NODES, PromptReader
from constrained.decoding.sequence import TokenSequence
from constrained.decoding.speculation import DraftScheduler
from constrained.decoding.text_tree import NO_TEXTS, TextTree
from constrained.decoding.tree_logits import TreeLogits
from constrained.decoding.tree_scores import TreeScores
from constrained.models import Cache, LanguageModel
from constrained.spec import _core
from constrained.spec.budget import DraftBudget

_PROBE_NODES = 64
"""Nodes of a probe."""


def forward_pass(
    model: LanguageModel,
    cache: Cache,
    sequences: Sequence[TokenSequence],
    speculation: DraftScheduler | None,
    top_counts: Sequence[int] = (),
) -> list[TreeLogits]:
    """One forward pass: what of each sequence has not been read yet, and its draft tree, or the texts that it asks for.

    Args:
        model: computes the logits.
        cache: one row for each sequence; to be settled afterwards if a draft tree was read.
        sequences: each with unread tokens, or texts to be read.
        speculation: None to draft nothing.
        top_counts: for each sequence, how many of the tokens with the largest keys its sampler looks at; 0, or no
            sizes at all: the sampler needs whole rows.

    Returns:
        The logits of each sequence.
    """
    count = len(sequences)
    budget = None if speculation is None else speculation.budget(model, count)
    trees: list[_core.Tree | TextTree] = [sequence.asked_texts() for sequence in sequences]
    if model.no_trees is not None:
        trees = [NO_TEXTS] * count
    sizes = [len(tree) - 1 for tree in trees]
    asks = any(sizes)
    # Drafts go on behind the values of a slot; from texts that must not be written a completion departs.
    departs = [size > 0 and one.slot is None for size, one in zip(sizes, sequences, strict=True)]
    probes: list[_core.Tree | None] = [None] * count
    draft_seconds = 0.0
    lengths = [len(sequence.unread) for sequence in sequences]
    usual = sorted(lengths)[(count - 1) // 2]
    # A pass is as wide as its widest row: one with more forced text than most others reads it in several.
    behind = [
        sequence.params.jumps and length > usual and not size
        for sequence, length, size in zip(sequences, lengths, sizes, strict=True)
    ]
    longest = max(usual if late else length for length, late in zip(lengths, behind, strict=True))
    reads_prompts = not all(sequence.stats.forwards for sequence in sequences)
    width = 1 if reads_prompts else max(longest, 1)
    draft_size = budget.draft_size() if budget is not None and longest <= LONGEST_PROMPT else 0
    drafting = [row for row in range(count) if draft_size and not departs[row] and not behind[row]]
    for row, sequence in enumerate(sequences):
        if sequence.drafter is not None and row not in drafting:
            sequence.drafter.pause()
    clock = _clock(model)
    draft_cost = 0.0
    if budget is not None and drafting:
        began, clock_began = time.perf_counter(), clock()
        assistant_cost = 0.0  # weighed by its own balance
        drafts, predicted, jumps = [], [], []
        for row in drafting:
            drafter = sequences[row].drafter
            assert drafter is not None
            further: Sequence[tuple[int, float]] = ()
            if model.assistant is not None:
                aside = clock()
                further = assisted(model, sequences[row], budget.plain_seconds, clock)
                assistant_cost += clock() - aside
            drafted = drafter.draft(draft_size, sequences[row].remaining_tokens, further)
            drafts.append(drafted)
            predicted.append(drafter.predicted_acceptance())
            jumps.append(_jumps(sequences[row], drafted))
        draft_seconds, draft_cost = time.perf_counter() - began, clock() - clock_began - assistant_cost
        for sequence in sequences:
            sequence.stats.draft_seconds += draft_seconds
        verified = budget.verify_sizes(predicted, draft_cost, unread=width, jumps=jumps)
        for row, drafted, size in zip(drafting, drafts, verified, strict=True):
            drafter, texts = sequences[row].drafter, trees[row]
            assert drafter is not None
            drafter.mark_verified(size)
            trees[row] = (
                texts.joined(drafted, size) if isinstance(texts, TextTree) and sizes[row] else drafted
            )
            sizes[row] = len(trees[row]) - 1 if sizes[row] else size
    began, clock_began = time.perf_counter(), clock()
    wide = longest + max(sizes)
    unread = [one.unread[: wide if late else None] for one, late in zip(sequences, behind, strict=True)]
    trees_read: tuple[list[list[int]], list[int]] | None = None
    if not any(sizes):
        tokens = unread
        rows = [TreeLogits(None, row, 0, len(ids)) for row, ids in enumerate(unread)]
    else:
        tokens, parents, skip, begin = [], [], [], 0
        rows = []
        for row, (ids, tree, size) in enumerate(zip(unread, trees, sizes, strict=True)):
            last = len(ids) - 1
            tokens.append([*ids, *tree.token[1 : size + 1]])
            parents.append([*range(-1, last), *(last + parent for parent in tree.parent[1 : size + 1])])
            skip.append(max(last, 0))
            device = _device_type(model)
            logits_reach_host = device in (None, "cpu") or (row < len(top_counts) and top_counts[row] > 0)
            probes[row] = probe = _probe(sequences[row], budget, size) if logits_reach_host else None
            if probe is not None:
                tokens[row] += probe.token[1:]
                parents[row] += [last + (size + parent if parent else 0) for parent in probe.parent[1:]]
            # Where nothing but the tree is read, it has no root.
            slot = None if ids else sequences[row].slot
            root = None if slot is None else slot.root
            rows.append(TreeLogits(tree, begin if ids else begin - 1, size, len(ids), probe, root))
            begin += len(tokens[row]) - skip[-1]
        trees_read = parents, skip
    planned = any(top_counts) and model.plans_draws and not asks
    draws = plan_draws(sequences, rows, top_counts) if planned else None
    logits = model.forward_logits(tokens, trees_read, cache, *(() if draws is None else (draws,)))

    def record() -> None:
        forward_seconds, cost = time.perf_counter() - began, clock() - clock_began
        for sequence in sequences:
            sequence.stats.forward_seconds += forward_seconds
        if budget is not None:
            # Without the probe, which `affords_probe` has weighed: it pays in later passes.
            nodes = 0 if asks else max(sizes)  # texts that are asked for are no drafts
            budget.record_pass(
                count, nodes, cost, draft_cost, unread=width, comparable=not (reads_prompts or asks)
            )

    logits.when_read(record)  # on a device the pass may only have been launched
    for one in rows:
        one.logits = logits
    return rows


def ask_forward(
    model: LanguageModel,
    cache: Cache,
    sequence: TokenSequence,
    questions: PromptQuestions,
    between: Callable[[], None] | None = None,
) -> tuple[TreeLogits, TreeScores, PromptReader]:
    """Reads a prompt and the options of its questions: in one pass, or more where they are chosen by what the model would write, or are many.

    Args:
        model: reads trees.
        cache: one row; it has read the prompt then.
        sequence: with its unread tokens, and no completion yet.
        questions: what is asked.
        between: called between two passes; None: nobody waits for that.

    Returns:
        The logits behind the prompt, the scores of the options, and what reads further ones.
    """
    began = time.perf_counter()
    row = TreeLogits(None, 0, 0, len(sequence.unread))
    most = PIECE_NODES if between is not None and _device_type(model) in (None, "cpu") else MOST_NODES
    reader = PromptReader(model, cache, sequence.stats, sequence.unread, most=most, between=between)
    if questions.leads is not None:
        rows = reader.rows(questions.leads)
        questions.choose([rows[path[-1]]() for path in questions.leads.paths])
    scores = reader.scores(questions.tree, questions.ends, whole=True)
    assert reader.prompt_logits is not None
    row.logits = reader.prompt_logits
    sequence.stats.forward_seconds += time.perf_counter() - began
    return row, scores, reader


def _jumps(sequence: TokenSequence, tree: _core.Tree) -> list[bool]:
    """Of each node of a tree but the root, whether the next token is written without its logits."""
    automaton = sequence.params.automaton
    if not sequence.params.jumps or automaton.relaxed_automaton is not automaton:
        return [False] * (len(tree) - 1)
    return [forced_token(automaton, state) is not None for state in tree.state[1:]]


def _probe(sequence: TokenSequence, budget: DraftBudget | None, nodes: int) -> _core.Tree | None:
    """An optional probe tree with the first draft: it peeks at the logits of the fields, if their gain exceeds its cost."""
    if sequence.drafter is None or budget is None:
        return None
    probe = sequence.drafter.probe(_PROBE_NODES)
    affordable = probe is not None and budget.affords_probe(nodes, len(probe) - 1, len(probe.asked))
    return probe if affordable else None


def _clock(model: LanguageModel) -> Callable[[], float]:
    """What the draft budget times passes with.

    Where this thread computes them it is the thread's processor time, so that a pass which another process interrupts
    is not taken for a slow one; for a model elsewhere it is the wall clock.
    """
    return time.thread_time if _device_type(model) == "cpu" else time.perf_counter


def _device_type(model: LanguageModel) -> str | None:
    """Where this process computes the logits; None for a model that it does not compute itself."""
    return getattr(getattr(model, "device", None), "type", None)
