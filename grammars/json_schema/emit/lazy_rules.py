"""Rules of plain schemas, put off until a text comes to them.

What a schema says by itself shows in a glance whether its objects and arrays can be lowered later: nothing in it can be
refused, and the length of its shortest text is plain. The glance is native (`grammars/_core/deferral_analysis.hpp`). What a rule
that is put off leads to and is not plain is lowered at once, so whatever is wrong with a schema shows at once, too.
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
def _punctuation_lengths(layout: JsonPunctuation) -> tuple[int, ...]:
    """Bytes of the shortest texts of a layout's terminals, all of them ASCII, in the order that `DeferralAnalysis` asks for."""
    terminals = (
        layout.open_object,
        layout.close_object,
        layout.empty_object,
        layout.open_array,
        layout.close_array,
        layout.empty_array,
        layout.comma,
    )
    regexes = [terminal.regex for terminal in terminals if isinstance(terminal, ir.Terminal)]
    return tuple(widths(regex)[0] for regex in (*regexes, layout.colon))


class LazySchemaRules:
    """The rules of one document that wait for their bodies.

    Args:
        document: made of a copy (`grammars._core.copy_document`).
        keywords: of its draft.
        layout: what is written around values.

    Attributes:
        lengths: bytes of the shortest text, by rule.
    """

    def __init__(self, document: SchemaDocument, keywords: Keywords, layout: JsonPunctuation) -> None:
        lengths = _punctuation_lengths(layout)
        self._document = document
        self._root = document.root
        self._analysis = DeferralAnalysis(document.root.value, keywords, lengths)
        self._shortest_container = min(lengths[2], lengths[5])
        self._alone: dict[str, SchemaNode] = {}
        self._cases: dict[str, tuple[Conjunction, TypeConstraints]] = {}
        self.lengths: dict[str, int] = {}

    def deferred_call(self, node: SchemaNode) -> ir.Call | None:
        """The call of a rule that stands for all values of a schema, put off; None where there is none."""
        if node.made or node.resource is not self._root:
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
            self._alone[name] = node
        return ir.Call(name)

    def _resolved(self, reference: str) -> SchemaNode:
        """What `SchemaDocument.resolve` finds, for references that are pointers as nodes have them; there are many."""
        root = self._root
        value = root.value
        for token in reference[2:].split("/"):
            if "~" in reference or type(value) is not dict:
                return self._document.resolve(root, reference)
            value = value[token]
        node = self._document.nodes[reference] = SchemaNode(value, reference, root, root.base)
        return node

    def defer(self, name: str, case: Conjunction, shape: TypeConstraints) -> bool:
        """Puts off the rule of a case, if it can be."""
        length = 0
        if not case:
            length = self._shortest_container
        elif len(case) == 1 and not case[0].made and case[0].resource is self._root:
            length = self._analysis.deferred_length(case[0].value, name)
        if length and name not in self.lengths:
            self.lengths[name] = length
            self._cases[name] = case, shape
        return bool(length)

    def deferred_disjunct(self, name: str) -> tuple[Conjunction, TypeConstraints | None]:
        """What a rule is of; the shape is None where it is that of the only schema."""
        node = self._alone.get(name)
        return self._cases[name] if node is None else ((node,), None)

    def pending_eager(self) -> Iterator[SchemaNode]:
        """Schemas that rules put off since the last call lead to, and that must be lowered at once."""
        document = self._document
        for pointer, reference, steps in self._analysis.pending_eager():
            if pointer is not None:
                start = document.nodes[pointer]
            else:
                assert reference is not None
                start = document.resolve(document.root, reference)
            yield document.child(start, *steps) if steps else start
