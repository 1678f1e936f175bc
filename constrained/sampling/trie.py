"""A trie of prefixes of one prompt, with upper bounds of the mass that can still become a valid sequence.

A node is a prefix u of an attempt. theta(u) is an upper bound of the probability that the model goes on
validly after u; it is 1 at first, 0 for an invalid prefix, and never grows. The surviving
mass s(u) = sum over tokens a of p(a | u) theta(u a) is such a bound too, and
`propagate` carries it up. A node stores its visited children and the total mass of all other tokens, so it takes about
fifty bytes (Park et al. 2024; Parys et al. 2025). All of these are kept as logarithms: the mass of a text of hundreds of
forced tokens is below every float.

A trie that is kept must not outlive its model. It remembers a sketch of the model's distribution after the prompt, and
each call compares it with what the model says now.
"""

from __future__ import annotations

import math
import os
import threading
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.errors import InvalidArgument

ROOT = 0
_NONE = -1
_COLUMNS = {
    "parent": "i", "token": "i", "child": "i", "sibling": "i", "log_p": "d", "log_theta": "d", "log_rest": "d"
}  # fmt: skip
_FORMAT = 2
_ATTEMPTS = 1 << 29  # numbers of attempts that a source of random numbers has
_BUCKETS = 64
_SAME_LOG = 1e-4  # two readings of one model differ by less, in the mean of a bucket's log-probabilities
_SAME_MASS = 1e-5  # and in the mass of a bucket


class TrieOutdated(Exception):
    """What a trie remembers of a node is not what the model says now."""


class Trie:
    """Prefixes of one prompt, in columns: node i is entry i of each.

    Invariants: theta never grows; `log_rest` of a visited node is the log of the directly summed mass of the possible
    tokens without a child; of any other node it is 0.

    Attributes:
        lock: must be held while an attempt reads or changes the trie.
        root: the sketch of the model's distribution at the root, float64 [128]; empty before the first attempt.
        attempts: number of attempts so far: their random numbers are never used again, with whatever seed.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.attempts = 0
        self.forget()

    def forget(self) -> None:
        """Removes all that was learned, and keeps the number of attempts."""
        self.parent, self.token, self.child, self.sibling = (array("i") for _ in range(4))
        self.log_p, self.log_theta, self.log_rest = (array("d") for _ in range(3))
        self.root: NDArray[np.float64] = np.zeros(0)
        self._add(_NONE, _NONE, 0.0)

    def recognize(self, log_probs: NDArray[np.float64]) -> bool:
        """Whether the model's log-probabilities at the root, float64 [V], are those that the trie was learned from."""
        sketch = _sketch(log_probs)
        if not len(self.root):
            self.root = sketch
        tolerance = np.repeat([_SAME_LOG, _SAME_MASS], _BUCKETS)
        return bool((np.abs(self.root - sketch) <= tolerance).all())

    def next_attempt(self) -> int:
        """The number of a new attempt."""
        self.attempts += 1
        return (self.attempts - 1) % _ATTEMPTS

    def bound(self, node: int = ROOT) -> float:
        """Theta of a node; not rounded to 0 where it is only too small for a float."""
        return above(self.log_theta[node])

    def _add(self, parent: int, token: int, log_p: float) -> int:
        values = (parent, token, _NONE, _NONE, log_p, 0.0, 0.0)
        for column, value in zip(_COLUMNS, values, strict=True):
            getattr(self, column).append(value)
        return len(self.log_p) - 1

    def __len__(self) -> int:
        return len(self.log_p)

    @property
    def bytes(self) -> int:
        """Memory of all nodes."""
        return sum(len(self) * getattr(self, column).itemsize for column in _COLUMNS)

    def children(self, node: int) -> list[int]:
        """Visited children, the newest first."""
        found = []
        child = self.child[node]
        while child != _NONE:
            found.append(child)
            child = self.sibling[child]
        return found

    def add_child(self, node: int, token: int, log_p: float, log_theta: float = 0.0) -> int:
        """The child with a token, added if it is new.

        Args:
            node: its parent.
            token: its last token.
            log_p: log-probability of the token at the parent.
            log_theta: log of the bound of a new child.
        """
        for child in self.children(node):
            if self.token[child] == token:
                return child
        new = self._add(node, token, log_p)
        self.log_theta[new] = log_theta
        self.sibling[new], self.child[node] = self.child[node], new
        return new

    def surviving_mass(self, node: int) -> float:
        """Log of the mass s of the node."""
        known = [self.log_p[child] + self.log_theta[child] for child in self.children(node)]
        return log_total([self.log_rest[node], *known])

    def propagate(self, node: int) -> None:
        """Tightens the bounds of a node and of all above it."""
        while node != _NONE:
            self.log_theta[node] = min(self.log_theta[node], self.surviving_mass(node))
            node = self.parent[node]

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns as arrays, and `root` and `attempts`."""
        columns = {name: np.array(getattr(self, name)) for name in _COLUMNS}
        return columns | {"root": self.root, "attempts": np.array(self.attempts)}

    @classmethod
    def of(cls, columns: dict[str, NDArray[Any]]) -> Trie:
        """The trie with these columns.

        Raises:
            InvalidArgument: the columns do not describe a trie.
        """
        columns = dict(columns)
        root, attempts = np.asarray(columns.pop("root")), int(columns.pop("attempts"))
        count = len(columns["log_p"])
        links = [np.asarray(columns[name]) for name in ("parent", "child", "sibling")]
        whole = count > 0 and all(len(column) == count for column in columns.values())
        # Children come after their parents, and after the siblings they point to: so there are no cycles.
        here = np.arange(count)
        if (
            not whole
            or not all(((link >= _NONE) & (link < count)).all() for link in links)
            or not (links[0] < here).all()
            or not (links[2] < here).all()
            or not ((links[1] > here) | (links[1] == _NONE)).all()
            or not all((columns[name] <= 1e-6).all() for name in ("log_p", "log_theta", "log_rest"))
            or root.shape not in ((0,), (2 * _BUCKETS,))
            or attempts < 0
        ):
            raise InvalidArgument("the trie is damaged", action="delete it: it will be learned again")
        trie = cls()
        for name, kind in _COLUMNS.items():
            setattr(trie, name, array(kind, np.asarray(columns[name]).tolist()))
        trie.root, trie.attempts = root.astype(np.float64), attempts
        return trie

    def __reduce__(self) -> tuple[Any, ...]:
        return Trie.of, (self.columns(),)


def log_total(logs: list[float]) -> float:
    """Log of the sum of numbers that are given by their logarithms; -inf for none."""
    top = max(logs, default=-math.inf)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(one - top) for one in logs))


def above(log: float) -> float:
    """The number with this logarithm, at most 1, rounded up: 0 only for -inf."""
    return max(math.exp(min(log + _rounding(log), 0.0)), 5e-324) if log > -math.inf else 0.0


def below(log: float) -> float:
    """The number with this logarithm, at most 1, rounded down."""
    return math.exp(min(log - _rounding(log), 0.0)) if log > -math.inf else 0.0


def _rounding(log: float) -> float:
    """More than a sum of logarithms is off by."""
    return 1e-14 * (1.0 + abs(log))


def _sketch(log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean log-probability and mass of the tokens of each residue class of ids."""
    padded = np.full(-(-len(log_probs) // _BUCKETS) * _BUCKETS, -1000.0)
    padded[: len(log_probs)] = np.maximum(log_probs, -1000.0)
    table = padded.reshape(-1, _BUCKETS)
    return np.concatenate([table.mean(axis=0), np.exp(table).sum(axis=0)])


class Tries:
    """Tries that several calls share: one for each model, prompt, constraint, temperature and limit.

    A sampler with `Tries` continues to learn where earlier calls stopped. The distribution of its sequences does not
    change; the sequence for a seed then depends on earlier calls: every attempt has random numbers that no earlier one
    had, so that calls with one seed are as independent as those with several. A model that has changed since is noticed,
    and its tries begin anew.
    """

    def __init__(self) -> None:
        self._tries: dict[str, Trie] = {}
        self._lock = threading.Lock()

    def of(self, key: str) -> Trie:
        """The trie of the batches with this `ParticleBatch.key`."""
        with self._lock:
            return self._tries.setdefault(key, Trie())

    def __len__(self) -> int:
        return len(self._tries)

    @property
    def bytes(self) -> int:
        """Memory of all tries."""
        return sum(trie.bytes for trie in list(self._tries.values()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all tries into one file (a numpy archive), which atomically replaces an existing one."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT)}
        for key, trie in list(self._tries.items()):
            with trie.lock:
                arrays |= {f"{key}/{name}": column for name, column in trie.columns().items()}
        beside = f"{os.fspath(path)}.{os.getpid()}.new"
        with open(beside, "wb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(beside, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tries:
        """Reads what `save` wrote.

        Raises:
            OSError: the file cannot be read.
            InvalidArgument: the file is not a trie archive, or is damaged.
        """
        found = cls()
        columns: dict[str, dict[str, NDArray[Any]]] = {}
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                if int(archive["format"]) != _FORMAT:
                    raise ValueError("another format")
                for name in archive.files:
                    key, _, column = name.partition("/")
                    if column:
                        columns.setdefault(key, {})[column] = archive[name]
            found._tries = {key: Trie.of(parts) for key, parts in columns.items()}
        except OSError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"{os.fspath(path)} does not contain tries: {error}",
                action="delete it: they will be learned again",
            ) from error
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (dict(self._tries),)


def _restored(tries: dict[str, Trie]) -> Tries:
    found = Tries()
    found._tries = tries
    return found
