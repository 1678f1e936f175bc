"""`AvoidedTree`: texts that a completion must not write, in the form of a draft tree."""

from __future__ import annotations

from constrained.sampling.token_tree import TokenTree


class AvoidedTree:
    """Texts that are to be avoided, as a draft tree: a pass reads it as one. Node 0 is the end of the completion.

    Attributes:
        token, parent: of each node; -1 for the root.
    """

    def __init__(self, tree: TokenTree) -> None:
        """The tree of their tokens."""
        self.token = [-1, *tree.tokens]
        self.parent = [-1, *(parent + 1 for parent in tree.parents)]
        self._children: list[dict[int, int]] = [{} for _ in self.token]
        for node in range(1, len(self.token)):
            self._children[self.parent[node]][self.token[node]] = node

    def __len__(self) -> int:
        return len(self.token)

    def children(self, node: int) -> dict[int, int]:
        """The nodes behind a node, by their tokens."""
        return self._children[node]

    def child(self, node: int, token: int) -> int:
        """The child with a token, or -1."""
        return self._children[node].get(token, -1)

    def path(self, node: int) -> list[int]:
        """The nodes from the root, which is left out, to the node."""
        nodes = []
        while node:
            nodes.append(node)
            node = self.parent[node]
        return nodes[::-1]

    def tokens(self, node: int) -> list[int]:
        """The tokens from the root to the node."""
        return [self.token[one] for one in self.path(node)]


NOTHING_AVOIDED = AvoidedTree(TokenTree.of([]))
