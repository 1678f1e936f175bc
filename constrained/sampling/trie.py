"""A trie of prefixes of one prompt, with upper bounds of the mass that can still become a valid sequence.

A node is a prefix u of an attempt. theta(u) is an upper bound of the probability that the model goes on
validly after u; it is 1 at first, 0 for an invalid prefix, and never grows. The surviving
mass s(u) = sum over tokens a of p(a | u) theta(u a) is such a bound too, and
`propagate` carries it up. A node stores its visited children and the total mass of all other tokens, so it takes about
fifty bytes (Park et al. 2024; Parys et al. 2025).
"""

from __future__ import annotations

import os
import threading
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.errors import InvalidArgument
from constrained.sampling.base import ParticleBatch

ROOT = 0
_NONE = -1
_COLUMNS = {"parent": "i", "token": "i", "child": "i", "sibling": "i", "p": "d", "theta": "d", "rest": "d"}
_FORMAT = 1


class Trie:
    """Prefixes of one prompt, in columns: node i is entry i of each.

    Invariants: theta never grows; `rest` of a visited node is the directly summed mass of the possible tokens without a
    child; of any other node it is 1.

    Attributes:
        lock: must be held while an attempt reads or changes the trie.
    """

    def __init__(self) -> None:
        self.parent, self.token, self.child, self.sibling = (array("i") for _ in range(4))
        self.p, self.theta, self.rest = (array("d") for _ in range(3))
        self.lock = threading.RLock()
        self._add(_NONE, _NONE, 1.0)

    def _add(self, parent: int, token: int, p: float) -> int:
        values = (parent, token, _NONE, _NONE, p, 1.0, 1.0)
        for column, value in zip(_COLUMNS, values, strict=True):
            getattr(self, column).append(value)
        return len(self.p) - 1

    def __len__(self) -> int:
        return len(self.p)

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

    def add_child(self, node: int, token: int, p: float, theta: float = 1.0) -> int:
        """The child with a token, added if it is new.

        Args:
            node: its parent.
            token: its last token.
            p: probability of the token at the parent.
            theta: bound of a new child.
        """
        for child in self.children(node):
            if self.token[child] == token:
                return child
        new = self._add(node, token, p)
        self.theta[new] = theta
        self.sibling[new], self.child[node] = self.child[node], new
        return new

    def surviving_mass(self, node: int) -> float:
        """The mass s of the node."""
        return self.rest[node] + sum(self.p[child] * self.theta[child] for child in self.children(node))

    def propagate(self, node: int) -> None:
        """Tightens the bounds of a node and of all above it."""
        while node != _NONE:
            self.theta[node] = min(self.theta[node], self.surviving_mass(node))
            node = self.parent[node]

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns as arrays."""
        return {name: np.array(getattr(self, name)) for name in _COLUMNS}

    @classmethod
    def of(cls, columns: dict[str, NDArray[Any]]) -> Trie:
        """The trie with these columns.

        Raises:
            InvalidArgument: the columns do not describe a trie.
        """
        count = len(columns["p"])
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
            or not all(
                ((columns[name] >= 0) & (columns[name] <= 1 + 1e-6)).all() for name in ("p", "theta", "rest")
            )
        ):
            raise InvalidArgument("the trie is damaged", action="delete it: it will be learned again")
        trie = cls()
        for name, kind in _COLUMNS.items():
            setattr(trie, name, array(kind, np.asarray(columns[name]).tolist()))
        return trie

    def __reduce__(self) -> tuple[Any, ...]:
        return Trie.of, (self.columns(),)


class Tries:
    """Tries that several calls share: one for each model, prompt, constraint, temperature and limit.

    A sampler with `Tries` continues to learn where earlier calls stopped. The distribution of its sequences does not
    change; the sequence for a seed then depends on earlier calls.
    """

    def __init__(self) -> None:
        self._tries: dict[str, Trie] = {}
        self._lock = threading.Lock()

    def of(self, batch: ParticleBatch) -> Trie:
        """The trie of a batch."""
        with self._lock:
            return self._tries.setdefault(batch.key, Trie())

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
