"""Deferred rules of large schemas: a rule's body is lowered only when a completion first reaches it.

A rule can be deferred where its schema, read by itself, cannot be refused and the length of its shortest text is known.
A native analysis (`DeferralAnalysis`, see `grammars/_core`) decides that without lowering anything. Schemas below a
deferred rule that cannot be deferred are lowered at once, so every error in a schema is raised at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from grammars import ir
from grammars._core import DeferralAnalysis, Keywords
from grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from grammars.json_schema.source.document import SchemaDocument, SchemaNode
from grammars.json_schema.text.punctuation import JsonPunctuation
from grammars.regex.analysis import widths


@cache
def _punctuation_lengths(punctuation: JsonPunctuation) -> tuple[int, ...]:
    """Bytes of the shortest texts of the punctuation, in the order in which `DeferralAnalysis` takes them."""
    terminals = (
        punctuation.open_object,
        punctuation.close_object,
        punctuation.empty_object,
        punctuation.open_array,
        punctuation.close_array,
        punctuation.empty_array,
        punctuation.comma,
    )
    regexes = [terminal.regex for terminal in terminals if isinstance(terminal, ir.Terminal)]
    return tuple(widths(regex)[0] for regex in (*regexes, punctuation.colon))


class LazySchemaRules:
    """The deferred rules of one document.

    Args:
        document: made of a copy (`grammars._core.copy_document`), because schemas are read later.
        keywords: of its dialect.
        punctuation: terminals of the punctuation.

    Attributes:
        lengths: bytes of the shortest text, by deferred rule.
    """

    def __init__(self, document: SchemaDocument, keywords: Keywords, punctuation: JsonPunctuation) -> None:
        lengths = _punctuation_lengths(punctuation)
        self._document = document
        self._root = document.root
        self._analysis = DeferralAnalysis(document.root.value, keywords, lengths)
        self._shortest_container = min(lengths[2], lengths[5])
        self._nodes: dict[str, SchemaNode] = {}
        self._disjuncts: dict[str, tuple[Conjunction, TypeConstraints]] = {}
        self.lengths: dict[str, int] = {}

    def deferred_call(self, node: SchemaNode) -> ir.Call | None:
        """A call of the deferred rule of all values of a schema; None where the schema cannot be deferred."""
        if node.is_synthetic or node.resource is not self._root:
            return None
        length = self._analysis.deferred_length(node.value, node.pointer, True)
        if not length:
            reference = self._analysis.deferrable_reference(node.value, node.pointer)
            if reference is None:
                return None
            node = self._document.nodes.get(reference) or self._resolved(reference)
            length = self._analysis.deferred_length(node.value, node.pointer, True)
        name = node.pointer
        if name not in self.lengths:
            self.lengths[name] = length
            self._nodes[name] = node
        return ir.Call(name)

    def _resolved(self, reference: str) -> SchemaNode:
        """`SchemaDocument.resolve` with a short cut for plain pointers through objects, which are most references."""
        root = self._root
        value = root.value
        for token in reference[2:].split("/"):
            if "~" in reference or type(value) is not dict:
                return self._document.resolve(root, reference)
            value = value[token]
        node = self._document.nodes[reference] = SchemaNode(value, reference, root, root.base)
        return node

    def defer(self, name: str, disjunct: Conjunction, constraints: TypeConstraints) -> bool:
        """Defers the rule of a disjunct; False if it cannot be deferred."""
        length = 0
        if not disjunct:
            length = self._shortest_container
        elif len(disjunct) == 1 and not disjunct[0].is_synthetic and disjunct[0].resource is self._root:
            length = self._analysis.deferred_length(disjunct[0].value, name)
        if length and name not in self.lengths:
            self.lengths[name] = length
            self._disjuncts[name] = disjunct, constraints
        return bool(length)

    def deferred_disjunct(self, name: str) -> tuple[Conjunction, TypeConstraints | None]:
        """The disjunct of a deferred rule and its constraints; None stands for those of its only schema."""
        node = self._nodes.get(name)
        return self._disjuncts[name] if node is None else ((node,), None)

    def pending_eager(self) -> Iterator[SchemaNode]:
        """Schemas below the rules deferred since the last call that cannot be deferred themselves."""
        document = self._document
        for pointer, reference, steps in self._analysis.pending_eager():
            if pointer is not None:
                start = document.nodes[pointer]
            else:
                assert reference is not None
                start = document.resolve(document.root, reference)
            yield document.child(start, *steps) if steps else start
