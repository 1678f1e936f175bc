"""`TokenTree`: sequences of tokens that share their beginnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

ROOT = -1
"""The parent of the first tokens: what stands before all sequences."""


@dataclass(frozen=True)
class TokenTree:
    """Sequences of tokens as a tree. Nodes are numbered depth first, a parent before its children.

    Attributes:
        tokens: the token of each node.
        parents: the node before each node; `ROOT`: none.
        paths: the nodes of each sequence.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> TokenTree:
        """The tree of some sequences, which may be equal or empty."""
        tokens: list[int] = []
        parents: list[int] = []
        paths: list[tuple[int, ...]] = [()] * len(sequences)
        children: dict[tuple[int, int], int] = {}
        # Sorted, so that sequences with a common beginning follow each other: their nodes are numbered depth first.
        for index in sorted(range(len(sequences)), key=lambda i: tuple(sequences[i])):
            path, at = [], ROOT
            for token in sequences[index]:
                node = children.get((at, token))
                if node is None:
                    node = children[at, token] = len(tokens)
                    tokens.append(token)
                    parents.append(at)
                path.append(node)
                at = node
            paths[index] = tuple(path)
        return cls(tuple(tokens), tuple(parents), tuple(paths))

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """The nodes behind each node that has some."""
        found: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            found.setdefault(parent, []).append(node)
        return {parent: tuple(nodes) for parent, nodes in found.items()}

    def above(self, node: int) -> list[int]:
        """The nodes from the first one to this one."""
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def parts(self, most: int, first: int = 0) -> Iterator[list[int]]:
        """Groups of nodes, each with all nodes above its nodes, in which each node is for the first time in one group.

        Args:
            most: nodes of a group that are in no group before.
            first: the node with which the first group begins.
        """
        for begin in range(first, len(self.tokens), most):
            new = range(begin, min(begin + most, len(self.tokens)))
            yield [*self.above(begin)[:-1], *new]
