"""The draft tree: guessed tokens that follow a text, in arrays.

Invariants: node 0 is the end of the text and has no token; a parent comes before its children; the children of a node
have different tokens; `pi` of a node is at most its parent's.
"""

from __future__ import annotations

from collections.abc import Iterator

ROOT = 0
NO_NODE = -1


class ReferenceDraftTree:
    """Tokens that may follow a text. Node i is entry i of each list.

    Attributes:
        token: ids; -1 for the root.
        parent: node before it; -1 for the root.
        first_child: -1 where there is none.
        next_sibling: -1 where there is none.
        depth: tokens after the root.
        pi: how probable it is that all tokens on the way to the node are the text's.
        state: of the automaton, after the node.
        sources: bit i is set if source i guessed the node.
        asked: nodes whose likeliest tokens the drafter wants to know.
    """

    def __init__(self, state: int) -> None:
        """A tree without guesses.

        Args:
            state: of the automaton, at the end of the text.
        """
        self.token = [NO_NODE]
        self.parent = [NO_NODE]
        self.first_child = [NO_NODE]
        self.next_sibling = [NO_NODE]
        self.depth = [0]
        self.path_probability = [1.0]
        self.state = [state]
        self.sources = [0]
        self.asked: list[int] = []

    def __len__(self) -> int:
        """Nodes, the root included."""
        return len(self.token)

    def add(self, parent: int, token: int, state: int, pi: float, sources: int = 0) -> int:
        """A new child; the caller knows that there is none of this token."""
        node = len(self.token)
        self.token.append(token)
        self.parent.append(parent)
        self.first_child.append(NO_NODE)
        self.next_sibling.append(self.first_child[parent])
        self.first_child[parent] = node
        self.depth.append(self.depth[parent] + 1)
        self.path_probability.append(pi)
        self.state.append(state)
        self.sources.append(sources)
        return node

    def children(self, node: int) -> Iterator[int]:
        """The children of a node, the newest first."""
        child = self.first_child[node]
        while child != NO_NODE:
            yield child
            child = self.next_sibling[child]

    def child(self, node: int, token: int) -> int:
        """The child with a token, or -1."""
        for child in self.children(node):
            if self.token[child] == token:
                return child
        return NO_NODE

    def path(self, node: int) -> list[int]:
        """The nodes from the root to a node, the root left out."""
        found = []
        while node != ROOT:
            found.append(node)
            node = self.parent[node]
        return found[::-1]

    def follow(self, tokens: list[int]) -> list[int]:
        """The nodes along tokens, as far as they were guessed."""
        node, found = ROOT, []
        for token in tokens:
            node = self.child(node, token)
            if node == NO_NODE:
                break
            found.append(node)
        return found
