"""Token automata: which tokens may follow, under a constraint and over a vocabulary.

    protocol.py       the protocol of all automata: `Automaton`
    predicate.py      the automaton of a grammar and predicates, whose states are whole prefixes
    counted.py        the automaton of a grammar with texts of a limited number of tokens
    bitmask.py        masks of token ids
    trial.py          the trial of a new automaton
    device_masks.py   masks on a device
    cache.py          compiled automata by constraint, and by name

`TokenAutomaton`, `UniqueAutomaton` and `LexerAutomaton` are native (`constrained/_core`). Must not know: torch, models, samplers.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from constrained import _core
from constrained.automaton.bitmask import Bitmask
from constrained.automaton.counted import CountedAutomaton, vocabulary_with_letters
from constrained.automaton.predicate import PredicateAutomaton
from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton, shown_count
from constrained.automaton.trial import try_out
from constrained.errors import (
    ConstraintTooLarge,
    InvalidArgument,
    Problem,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
    VocabularyError,
)
from constrained.grammars import ir
from constrained.grammars.counted import CountedGrammar, CountedText
from constrained.grammars.garbage import rare_collections
from constrained.grammars.lexer import LexerGrammar, reject_lexer_grammar
from constrained.grammars.packed import PackedRules
from constrained.grammars.transform.repeated_letters import with_repeated_letters
from constrained.grammars.visit import children, fold
from constrained.lru_cache import LRUCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from constrained.automaton.trial import CompiledAutomaton
    from constrained.constraint import Constraint
    from constrained.grammars.ir import Grammar
    from constrained.vocabulary import Vocabulary
    from constrained.vocabulary.shards import Shard, ShardPool

__all__ = [
    "DEAD",
    "NO_LIMIT",
    "Automaton",
    "CountedAutomaton",
    "LexerAutomaton",
    "PredicateAutomaton",
    "TokenAutomaton",
    "UniqueAutomaton",
    "compile",
    "compile_grammar",
    "fill_masks",
    "mask_ids",
]

_EMPTINESS_FUEL = 20_000
"""Derivatives that deciding the emptiness of one terminal may take (well under a second)."""

_SEARCH_FUEL = 20_000
"""States that the search for one completion behind a lexer may visit."""

_REGEX_CACHE_SIZE = 10_000
"""Regular expressions that a shard remembers before its table is replaced."""

_MOST_TRIED = 4096
"""Constraints inside of others of which is remembered that they were tried."""

_MEMORY_LIMIT = 64 << 20
"""Bytes of an automaton before it evicts what can be computed again."""


class _AutomatonMixin:
    """What Python adds to a native automaton, so that it is an `Automaton`."""

    grammar: Grammar
    vocabulary: Vocabulary
    constraint: Constraint | None
    expensive_membership: bool = False

    # A native class cannot derive from a protocol: their metaclasses differ.
    next_within = Automaton.next_within
    only_eos = Automaton.only_eos
    relaxed_automaton = Automaton.relaxed_automaton
    limit_may_exclude = Automaton.limit_may_exclude
    report = Automaton.report
    new_mask = Automaton.new_mask

    if TYPE_CHECKING:

        @property
        def memory(self) -> dict[str, int]: ...

        @property
        def outgrown(self) -> bool: ...

    def __init__(
        self,
        grammar: Grammar,
        vocabulary: Vocabulary,
        *,
        constraint: Constraint | None = None,
        memory_limit: int = _MEMORY_LIMIT,
    ) -> None:
        self.grammar, self.vocabulary, self.constraint = grammar, vocabulary, constraint
        self._construct(memory_limit)

    def _construct(self, memory_limit: int) -> None:
        """Calls the constructor of the native class, and checks what it made of the grammar."""
        raise NotImplementedError

    def __repr__(self) -> str:
        size = self.memory
        return f"{type(self).__name__}({size['states']} states so far, {size['bytes'] // 1024} KiB)"


class TokenAutomaton(_AutomatonMixin, _core.Automaton):
    """The native automaton of a grammar over a vocabulary.

    States and masks are computed when they are first needed, memoised, and shared by all threads and requests.
    `forced` is exact up to 16,384 bytes; for `shortest_completion` see `Automaton`.

    Attributes:
        grammar: the grammar.
        vocabulary, constraint: see `Automaton`.

    Raises:
        UnsatisfiableConstraint: no completion over this vocabulary satisfies the grammar.
        UnsupportedConstraint: the grammar is left-recursive.
        ConstraintTooLarge: an intersection or complement takes too long to decide.
    """

    def _construct(self, memory_limit: int) -> None:
        reject_lexer_grammar(self.grammar, "here: it needs a LexerAutomaton")
        construct = partial(_core.Automaton.__init__, self)
        _construct(self, construct, self.vocabulary.shard_pool, memory_limit)


class UniqueAutomaton(_AutomatonMixin, _core.UniqueAutomaton):
    """The native automaton of a grammar with arrays whose items differ as JSON values (`constrained.grammars.ir.Mark`).

    Attributes and errors as for `TokenAutomaton`.
    """

    def _construct(self, memory_limit: int) -> None:
        construct = partial(_core.UniqueAutomaton.__init__, self)
        _construct(self, construct, self.vocabulary.mark_shard_pool, memory_limit)


class LexerAutomaton(_AutomatonMixin, _core.LexerAutomaton):
    """The native automaton of a grammar whose terminals a lexer separates (Lark's basic and contextual lexers).

    A token is allowed if a search finds a completion for the text with it. `shortest_completion` is exact where few texts
    can follow (`counts_exactly`); elsewhere it is the length of that completion, which is shortest or nearly so. Attributes as in
    `TokenAutomaton`. What is evicted is what no state consists of that was returned.

    Raises:
        UnsatisfiableConstraint: no completion over this vocabulary satisfies the grammar; names terminals that the lexer
            joins.
        UnsupportedConstraint: the grammar is left-recursive.
        ConstraintTooLarge: an intersection or complement takes too long to decide, or the search for a completion
            exceeds its limit.
    """

    grammar: LexerGrammar

    def _construct(self, memory_limit: int) -> None:
        grammar, shard = self.grammar, self.vocabulary.shard_pool.next_shard()
        try:
            _core.LexerAutomaton.__init__(
                self,
                shard.core,
                dict(grammar.rules),
                grammar.start,
                shard.regexes,
                [token.regex for token in grammar.tokens],
                [token.rank for token in grammar.tokens],
                [list(token.inherits_rank_from) for token in grammar.tokens],
                [token.shortest for token in grammar.tokens],
                grammar.basic_lexer,
                _SEARCH_FUEL,
                memory_limit,
            )
        except _core.TooLarge as error:
            raise ConstraintTooLarge(
                f"the constraint is too large to compile: {error}", action="simplify its patterns"
            ) from None
        _check_left_recursion(grammar, self.left_recursive_rule)
        if self.start == DEAD and self.search_exhausted:
            raise ConstraintTooLarge(
                "no completion that satisfies the constraint was found",
                Problem(
                    "lexer",
                    f"the search for a completion visited {_SEARCH_FUEL} states without finding one",
                ),
                action="let the tokens that follow each other differ more, or ignore white space between them",
            )
        if self.start == DEAD:
            names = [
                (grammar.tokens[one].name, grammar.tokens[other].name)
                for one, other in self.conflicting_tokens
            ]
            raise UnsatisfiableConstraint(
                "no completion satisfies the constraint: the lexer splits every one differently",
                [Problem(f"{one} {other}", f"{other} never starts right after {one}") for one, other in names]
                or [Problem("lexer", "other tokens have priority over the ones that the rules need")],
                action="ignore white space between tokens, or give the tokens priorities",
            )


def _construct(
    automaton: TokenAutomaton | UniqueAutomaton,
    init: Callable[..., None],
    shards: ShardPool,
    memory_limit: int,
) -> None:
    """Calls the constructor of a native automaton of rules, `init`, and checks what it made of the grammar."""
    grammar, shard = automaton.grammar, shards.next_shard()
    known = shard.regexes
    try:
        rules: Any = grammar.rules if isinstance(grammar.rules, PackedRules) else dict(grammar.rules)
        init(shard.core, rules, grammar.start, known, _EMPTINESS_FUEL, memory_limit)
    except _core.TooLarge as error:
        raise ConstraintTooLarge(
            f"the constraint is too large to compile: {error}",
            _rules_too_large(grammar, shard),
            action="simplify its patterns",
        ) from None
    if len(known) > _REGEX_CACHE_SIZE:
        shard.regexes = {}  # a new table: other threads may be reading the old one
    _check_left_recursion(grammar, automaton.left_recursive_rule)
    if automaton.start == DEAD:
        raise UnsatisfiableConstraint(
            "no completion satisfies the constraint",
            Problem(f"rule {grammar.start}", "describes the empty language"),
            action="change what excludes every text, such as a look-ahead that nothing fulfils",
        )


def _rules_too_large(grammar: Grammar, shard: Shard) -> tuple[Problem, ...]:
    """The first rule with a terminal that is too large to compile, for the error message."""
    rules: dict[ir.Expr, str] = {}
    for rule, body in grammar.rules.items():
        parts: dict[ir.Expr, None] = {}
        fold(body, children, lambda expr, known: None, parts)
        for expr in parts:
            rules.setdefault(expr, rule)
    for expr, rule in rules.items():
        if isinstance(expr, ir.Terminal):
            try:
                _core.Automaton(
                    shard.core, {"start": expr}, "start", shard.regexes, _EMPTINESS_FUEL, _MEMORY_LIMIT
                )
            except _core.TooLarge:
                return (Problem(rule, "a pattern, or the conjunction of the keywords for one value"),)
    return ()


def _check_left_recursion(grammar: Grammar, rule: int) -> None:
    if rule >= 0:
        raise UnsupportedConstraint(
            "the grammar is left-recursive",
            Problem(f"rule {tuple(grammar.rules)[rule]}", "can start with itself"),
            action="write the recursion on the right, or as a repetition",
        )


def fill_masks(
    automata: Sequence[Automaton],
    states: Sequence[int],
    masks: Bitmask,
    budgets: Sequence[int] | None = None,
) -> None:
    """Writes the masks of one decoding step, for sequences with automata of their own.

    Memoised masks are copied. Others are computed, in parallel for automata of different shards of the vocabulary
    (see `Vocabulary.core`). Other Python threads run meanwhile.

    Args:
        automata: one for each state, all over one vocabulary.
        states: their states.
        masks: written to, int32 ``[states, ceil(vocabulary.size / 32)]``, contiguous, in host memory.
        budgets: one for each state, as for `Automaton.fill_mask_within`; None: no limits.
    """
    native = [automaton for automaton in automata if isinstance(automaton, _core.BaseAutomaton)]
    if len(native) == len(automata):
        _core.Vocabulary.fill_masks(native, states, masks, () if budgets is None else budgets)
        return
    for i, (automaton, state, mask) in enumerate(zip(automata, states, masks, strict=True)):
        if budgets is None:
            automaton.fill_mask(state, mask)
        else:
            automaton.fill_mask_within(state, mask, budgets[i])


def mask_ids(automata: Sequence[Automaton], states: Sequence[int]) -> list[int]:
    """The ids of the masks of one decoding step; arguments as for `fill_masks`, ids as in `Vocabulary.masks`.

    Raises:
        UnsupportedConstraint: an automaton has no mask ids.
    """
    native = [automaton for automaton in automata if isinstance(automaton, _core.BaseAutomaton)]
    if len(native) == len(automata):
        return _core.Vocabulary.mask_ids(native, states)
    return [automaton.mask_id(state) for automaton, state in zip(automata, states, strict=True)]


def compile_grammar(
    grammar: Grammar,
    vocabulary: Vocabulary,
    *,
    constraint: Constraint | None = None,
    memory_limit: int = _MEMORY_LIMIT,
) -> TokenAutomaton | UniqueAutomaton | LexerAutomaton:
    """Compiles a grammar to the automaton that it needs; arguments and errors as for these."""
    if isinstance(grammar, LexerGrammar):
        return LexerAutomaton(grammar, vocabulary, constraint=constraint, memory_limit=memory_limit)
    try:
        return TokenAutomaton(grammar, vocabulary, constraint=constraint, memory_limit=memory_limit)
    except _core.MarkedGrammar:
        return UniqueAutomaton(grammar, vocabulary, constraint=constraint, memory_limit=memory_limit)


def _counted(
    grammar: CountedGrammar, vocabulary: Vocabulary, constraint: Constraint, memory_limit: int
) -> CountedAutomaton:
    """The automaton of a grammar with texts of a limited number of tokens."""
    relaxed = compile_grammar(grammar.relaxed, vocabulary, constraint=constraint, memory_limit=memory_limit)
    _try_out(relaxed, constraint)
    texts = [
        (text, compile_grammar(text.grammar, vocabulary, memory_limit=memory_limit)) for text in grammar.texts
    ]
    fewest = {text.letter: _fewest_tokens(text, automaton) for text, automaton in texts}
    with_letters = vocabulary_with_letters(vocabulary, (text.letter for text in grammar.texts))
    outer = with_repeated_letters(
        grammar.outer, {letter: count for letter, count in fewest.items() if count > 1}
    )
    rules = compile_grammar(outer, with_letters, memory_limit=memory_limit)
    return CountedAutomaton(rules, texts, relaxed, constraint)


def _fewest_tokens(text: CountedText, automaton: Automaton) -> int:
    """The tokens that a counted text has at least, within its limit."""
    fewest = automaton.shortest_completion(automaton.start)
    if fewest <= text.most:
        return fewest
    # It may be that of the fewest bytes, and a longer text may take fewer tokens.
    exact = isinstance(automaton, _core.BaseAutomaton) and automaton.count_thoroughly(automaton.start)
    fewest = automaton.shortest_completion(automaton.start)
    if fewest <= text.most:
        return fewest
    which = (
        "each text has at least"
        if exact
        else "the texts are too many to count, and that of the fewest bytes has"
    )
    raise UnsatisfiableConstraint(
        "a limit of tokens is too small",
        Problem(text.place, f"{which} {shown_count(fewest)} tokens, and the limit is {text.most}"),
        action="raise the limit",
    )


@rare_collections()
def compile(constraint: Any, vocabulary: Vocabulary, *, memory_limit: int = _MEMORY_LIMIT) -> Automaton:
    """Compiles a constraint to an automaton over a vocabulary.

    Args:
        constraint: a `Constraint`, a Python type, or a JSON Schema as a dict or bool.
        vocabulary: the model's. If the constraint has special tokens in its texts, the automaton is over
            `Vocabulary.with_special_tokens`, and if it has names of special tokens in its fixed texts, over
            `Vocabulary.with_special_texts`.
        memory_limit: bytes above which an automaton evicts what it can compute again. States stay
            valid.

    Returns:
        A `TokenAutomaton`; a `UniqueAutomaton` for a grammar with marks; a `LexerAutomaton` for a grammar with a lexer; a `CountedAutomaton` for texts of a
        limited number of tokens; a `PredicateAutomaton` for a constraint with predicates.

    Raises:
        ConstraintError: the constraint is malformed, unsupported or unsatisfiable.
        ConstraintTooLarge: a compile budget is exhausted.
        InvalidArgument: `vocabulary` is none.
        PredicateError: a predicate does not decide whether the empty text is a valid prefix.
        VocabularyError: some bytes occur only inside longer tokens.
    """
    from constrained.constraint import PredicateConstraint, as_constraint
    from constrained.vocabulary import Vocabulary

    constraint = as_constraint(constraint)
    if not isinstance(vocabulary, Vocabulary):
        raise InvalidArgument(
            f"the vocabulary is of type {type(vocabulary).__name__}",
            action="pass Vocabulary.from_tokenizer(tokenizer), or the vocabulary of a loaded model",
        )
    if isinstance(constraint, PredicateConstraint):
        relaxed = compile(constraint.inner, vocabulary, memory_limit=memory_limit)
        return PredicateAutomaton(relaxed, constraint)
    grammar = constraint.grammar
    if constraint.special_tokens:
        vocabulary = vocabulary.with_special_tokens(constraint.special_tokens)
    if texts := "\0".join(constraint.fixed_texts):
        vocabulary = vocabulary.with_special_texts(name for name in vocabulary.special if name in texts)
    if missing := vocabulary.unspelled_bytes:
        # A text that needs one could run into a dead end: whether tokens spell the rest of it would be a search.
        raise VocabularyError(
            f"{len(missing)} bytes occur only inside longer tokens, the first is {missing[:1]!r}",
            action="use a tokenizer with a token for each byte: a byte-level one, or one with byte fallback",
        )
    if isinstance(grammar, CountedGrammar):
        return _counted(grammar, vocabulary, constraint, memory_limit)
    automaton = compile_grammar(grammar, vocabulary, constraint=constraint, memory_limit=memory_limit)
    _try_out(automaton, constraint)
    return automaton


def _try_out(automaton: CompiledAutomaton, constraint: Constraint) -> None:
    """Follows a few texts of an automaton that may be costly, and of each constraint inside that may be.

    Texts of these may be far from the first token, as behind free text. One that was tried over the vocabulary before is not tried again.
    """
    if automaton.needs_trial or constraint._ambiguous:
        try_out(automaton, written=constraint._ambiguous)
    parts = list(constraint._inside)
    if not parts:
        return
    with _tried_lock:
        tried = _tried.setdefault(automaton.vocabulary, LRUCache(_MOST_TRIED))
    while parts:
        part = parts.pop()
        parts += part._inside
        if (part._ambiguous or automaton.needs_trial) and tried.get(part.key) is None:
            _try_out_part(part, automaton.vocabulary)
            tried.put(part.key, True)


def _try_out_part(part: Constraint, vocabulary: Vocabulary) -> None:
    from constrained.constraint.shared_rules import shared_grammar

    grammar = shared_grammar(part)
    try:
        automaton = compile_grammar(
            grammar.relaxed if isinstance(grammar, CountedGrammar) else grammar, vocabulary
        )
    except UnsatisfiableConstraint:
        return  # no text comes there
    if automaton.needs_trial or part._ambiguous:
        try_out(automaton, written=part._ambiguous)


_tried: WeakKeyDictionary[Vocabulary, LRUCache[str, bool]] = WeakKeyDictionary()
"""Keys of constraints inside of others that passed their trial."""
_tried_lock = threading.Lock()
