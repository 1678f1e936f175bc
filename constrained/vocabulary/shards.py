"""Where the next automaton of a vocabulary goes: what automata learn about languages is kept in shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grammars.ir import Regex


@dataclass(slots=True, eq=False)
class Shard:
    """One shard: a native store of languages under one lock, and what it has read.

    Attributes:
        core: the native side.
        regexes: expressions it has read, with their numbers there.
    """

    core: Any
    regexes: dict[Regex, int] = field(default_factory=dict)


class ShardPool:
    """Shards in turn, so that automata spread evenly over them; one that has grown too large is replaced.

    The automata of a shard keep it alive, so a shard that was replaced goes when the last of them goes.
    """

    def __init__(self, vocabulary: Any) -> None:
        """Takes the native vocabulary."""
        self._vocabulary = vocabulary
        self._open: list[Shard] = []
        self._turn = 0
        self._lock = Lock()

    def next_shard(self) -> Shard:
        """The shard of the next automaton."""
        with self._lock:
            turn = self._turn
            self._turn = (turn + 1) % self._vocabulary.shards
            if turn == len(self._open):
                self._open.append(Shard(self._vocabulary.open_shard()))
            shard = self._open[turn]
        if shard.core.full:  # asked without the lock: it may have to wait for an automaton of that shard
            fresh = Shard(self._vocabulary.open_shard())
            with self._lock:
                if self._open[turn] is shard:
                    self._open[turn] = fresh
                shard = self._open[turn]
        return shard
