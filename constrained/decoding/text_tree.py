"""`TextTree`: texts that a pass reads behind a completion, in the form of a draft tree: those of a slot, or what must not be written."""

from __future__ import annotations

from constrained.sampling.token_tree import TokenTree
from constrained.spec import _core


class TextTree:
    """Texts as a draft tree: a pass reads it as one. Node 0 is the end of the completion, node n + 1 node n of the `TokenTree`.

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

    def joined(self, tree: _core.Tree, nodes: int) -> TextTree:
        """These texts and the first nodes of a draft tree."""
        paths: list[tuple[int, ...]] = [()]
        for node in range(1, nodes + 1):
            paths.append((*paths[tree.parent[node]], tree.token[node]))
        return TextTree(TokenTree.of([*map(self.tokens, range(len(self))), *paths]))

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


NO_TEXTS = TextTree(TokenTree.of([]))
