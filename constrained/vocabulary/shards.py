"""Distribution of automata over the shards of a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from constrained.grammars.ir import Regex


@dataclass(slots=True, eq=False)
class Shard:
    """A native store of languages under one lock.

    Attributes:
        core: the native object.
        regexes: regular expressions in the store, with their numbers.
    """

    core: Any
    regexes: dict[Regex, int] = field(default_factory=dict)


class ShardPool:
    """Assigns automata to shards in round-robin order; a shard that is full is replaced.

    Automata keep their shard alive, so a replaced shard is freed with its last automaton.
    """

    def __init__(self, vocabulary: Any, *, marks: bool = False) -> None:
        """Creates the pool of a native vocabulary; `marks`: for grammars with `constrained.grammars.ir.Mark`."""
        self._vocabulary = vocabulary
        self._marks = marks
        self._open: list[Shard] = []
        self._turn = 0
        self._lock = Lock()

    def next_shard(self) -> Shard:
        """The shard of the next automaton."""
        with self._lock:
            turn = self._turn
            self._turn = (turn + 1) % self._vocabulary.shards
            if turn == len(self._open):
                self._open.append(Shard(self._vocabulary.open_shard(self._marks)))
            shard = self._open[turn]
        if shard.core.full:  # without the lock: this may wait for an automaton of that shard
            fresh = Shard(self._vocabulary.open_shard(self._marks))
            with self._lock:
                if self._open[turn] is shard:
                    self._open[turn] = fresh
                shard = self._open[turn]
        return shard
