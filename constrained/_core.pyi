"""Native core: vocabulary tables and the token automaton."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray


class TooLarge(RuntimeError):
    pass

class MarkedGrammar(ValueError):
    pass

class MaskStore:
    """The masks of a vocabulary by id; an id never names two masks."""

    @property
    def words(self) -> int:
        """int32 words in a mask."""

    @property
    def first(self) -> int:
        """Masks with lower ids were evicted."""

    @property
    def end(self) -> int:
        """The id of the next new mask."""

    def copy(self, ids: Sequence[int], masks: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')]) -> bool:
        """
        Writes the masks with these ids; False if one of them was evicted: its state then has a new mask id.
        """

class Vocabulary:
    """Token bytes as tables; shared by all automata over them."""

    def __init__(self, blob: bytes, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], eos_ids: Sequence[int], *, memory_limit: int = 268435456, shards: int = 1) -> None:
        """
        Token t is blob[offsets[t]:offsets[t + 1]]; offsets is int64 with one element more than there are tokens.
        """

    def open_shard(self, marks: bool = False) -> Shard:
        """
        A new shard: automata of different shards never wait for each other. `marks`: for grammars with marks.
        """

    @property
    def shards(self) -> int:
        """Number of shards to use at a time."""

    @property
    def masks(self) -> MaskStore:
        """The masks of all automata."""

    @staticmethod
    def fill_masks(automata: Sequence[BaseAutomaton], states: Sequence[int], masks: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], budgets: Sequence[int] = []) -> None:
        """
        Writes one mask for each (automaton, state), in one call; with budgets, as `fill_mask_within` does.
        """

    @staticmethod
    def mask_ids(automata: Sequence[BaseAutomaton], states: Sequence[int]) -> list[int]:
        """Ids of the masks of each (automaton, state)."""

    @property
    def size(self) -> int:
        """Number of token ids."""

    @property
    def words(self) -> int:
        """int32 words in a mask."""

    @property
    def missing_bytes(self) -> list[int]:
        """
        Bytes that are not a token by themselves: no completion over this vocabulary contains them.
        """

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the shared tables now: counts, and bytes."""

class Shard:
    """
    Residuals and lexicon entries under one lock, shared by the automata compiled in this shard.
    """

    @property
    def full(self) -> bool:
        """Whether new automata should use a new shard."""

class BaseAutomaton:
    """
    Token automaton over numbered states: the interface of Automaton and LexerAutomaton.
    """

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def fill_mask(self, state: int, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

    @property
    def start(self) -> int:
        """The state before any token; 0 when no text satisfies the grammar."""

    @property
    def left_recursive_rule(self) -> int:
        """Index of a left-recursive rule, or -1."""

    def walk(self, state: int, tokens: Sequence[int]) -> list[int]:
        """States after each token; stops at the first that is not allowed."""

    def fill_masks(self, states: Sequence[int], masks: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """Writes one mask for each state, in one call."""

    def fill_mask_within(self, state: int, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], budget: int) -> None:
        """
        Writes the tokens after which at most budget - 1 more tokens complete the text; EOS bits iff complete.
        """

    def has_mask(self, state: int) -> bool:
        """Whether the mask of the state is in the memo."""

    def mask_id(self, state: int) -> int:
        """Id of the mask of the state in the vocabulary's mask store."""

    def mask_ids(self, states: Sequence[int]) -> list[int]:
        """Ids of the masks of the states."""

    def accepts(self, state: int) -> bool:
        """Whether the text so far is complete."""

    def forced(self, state: int) -> bytes:
        """Longest common prefix of all completions, cut at 16,384 bytes."""

    @property
    def automaton_table(self) -> Any:
        """
        The transitions as C functions, in a capsule; see spec/_core/automaton_table.hpp.
        """

    def shortest_completion(self, state: int) -> int:
        """
        Number of tokens, without EOS, that complete the text; 0 iff it is complete.
        """

    def counts_exactly(self, state: int) -> bool:
        """
        Whether that number is the least, here and in every state that can follow.
        """

    def count_thoroughly(self, state: int) -> bool:
        """
        Makes that number the least, also where many texts follow; False where they are too many for that.
        """

    @property
    def needs_trial(self) -> bool:
        """
        Whether later masks may take much more work than the first ones, as far as the grammar shows it.
        """

    def forks(self, state: int) -> int:
        """
        Levels of open rules at which several ways to read the text go on, at most: few in a text that can be read in one way.
        """

    def limit_work(self, steps: int | None) -> None:
        """
        From now on a call that takes more steps raises TooLarge; None: no call does.
        """

    @property
    def last_work(self) -> int:
        """
        Steps of the last call of an automaton of this shard that did not find its answer in a memo: a count, not a time.
        """

    @property
    def outgrown(self) -> bool:
        """
        Whether a new text should have a new automaton of the same grammar, because this one's memory can only grow.
        """

    @property
    def busy(self) -> bool:
        """Whether a call would wait now: another thread computes in this shard."""

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the automaton's own tables: counts, and bytes."""

class Automaton(BaseAutomaton):
    """Token automaton; see constrained.automaton.TokenAutomaton."""

    def __init__(self, shard: Shard, rules: Any, start: str, known: dict[Any, int], fuel: int, memory_limit: int) -> None:
        """
        From the rules of a constrained.grammars.ir.Grammar, a dict or a constrained.grammars.packed.PackedRules. `known` maps the expressions that this shard has read to their numbers;
        new ones are added.
        """

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def fill_mask(self, state: int, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

class UniqueAutomaton(BaseAutomaton):
    """
    Token automaton of a grammar with marks; see constrained.automaton.UniqueAutomaton.
    """

    def __init__(self, shard: Shard, rules: Any, start: str, known: dict[Any, int], fuel: int, memory_limit: int) -> None:
        """As Automaton; the shard is one that was opened for marks."""

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def fill_mask(self, state: int, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

    @property
    def search_exhausted(self) -> bool:
        """Whether a search for a completion ran out of fuel."""

class LexerAutomaton(BaseAutomaton):
    """
    Token automaton of a grammar behind a lexer; see constrained.automaton.LexerAutomaton.
    """

    def __init__(self, shard: Shard, rules: dict[str, Any], start: str, known: dict[Any, int], tokens: list[Any], ranks: Sequence[int], inherits_rank_from: Sequence[Sequence[int]], shortest: Sequence[bool], basic_lexer: bool, fuel: int, memory_limit: int) -> None:
        """
        As Automaton; also takes the regular expressions, ranks and rank sources of a constrained.grammars.lexer.LexerGrammar's tokens.
        """

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def fill_mask(self, state: int, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

    @property
    def search_exhausted(self) -> bool:
        """Whether a search for a completion ran out of fuel."""

    @property
    def conflicting_tokens(self) -> list[tuple[int, int]]:
        """
        If no completion exists: pairs of tokens whose second never stands right after the first.
        """
