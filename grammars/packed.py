"""Rules as packed arrays, from a native lowering to the core; to other code a plain mapping.

The core reads the arrays without objects in between (see ``grammars/_core/flat_nodes.hpp``). The objects of `constrained.grammars.ir` are
made only for code that asks for a rule.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from constrained.grammars import ir

_OPS = (
    "Literal", "Chars", "Concat", "Union", "Intersection", "Complement", "Repeat", "EmptySet", "DecimalMultiple", "Substring",
    "Terminal", "Call", "Sequence", "Choice", "Loop", "Interleave", "Reference", "Leaf",
)  # fmt: skip
"""Names of the operations by number: `flat::Op`."""


class PackedRules(Mapping[str, ir.Expr]):
    """A mapping of rules that are packed.

    Args:
        packed: the arrays.
        leaves: objects that nodes stand for.
        names: of the rules, in order.
        linked: leaves call rules, by their names.
    """

    def __init__(
        self, packed: bytes, leaves: tuple[Any, ...], names: tuple[str, ...], linked: bool = False
    ) -> None:
        self.packed = packed
        self.leaves = leaves
        self.names = names
        self.linked = linked

    @property
    def start(self) -> str:
        """The name of the start rule."""
        number: int = struct.unpack_from("7i", self.packed)[5]
        return self.names[number]

    def __getitem__(self, name: str) -> ir.Expr:
        return self.built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def built(self) -> dict[str, ir.Expr]:
        """The rules as objects; made once."""
        regexes, exprs, regex_args, expr_args, rules, _, size = struct.unpack_from("7i", self.packed)
        counts = (4 * regexes, 4 * exprs, regex_args, expr_args, rules)
        numbers = struct.unpack_from(f"{sum(counts)}i", self.packed, 28)
        text = self.packed[28 + 4 * len(numbers) :]
        assert len(text) == size
        parts, begin = [], 0
        for count in counts:
            parts.append(numbers[begin : begin + count])
            begin += count
        made_regexes = self._regexes(parts[0], parts[2], text)
        made = self._exprs(parts[1], parts[3], made_regexes)
        return {name: made[body] for name, body in zip(self.names, parts[4], strict=True)}

    def _regexes(self, nodes: tuple[int, ...], args: tuple[int, ...], text: bytes) -> list[ir.Regex]:
        made: list[ir.Regex] = []
        for i in range(0, len(nodes), 4):
            op, a, b = _OPS[nodes[i]], nodes[i + 1], nodes[i + 2]
            if op == "Leaf":
                made.append(self.leaves[a])
            elif op == "Literal":
                made.append(ir.Literal(text[a : a + b]))
            elif op == "Complement":
                made.append(ir.Complement(made[a]))
            else:
                kind = {"Concat": ir.Concat, "Union": ir.Union, "Intersection": ir.Intersection}[op]
                made.append(kind(tuple(made[part] for part in args[a : a + b])))
        return made

    def _exprs(self, nodes: tuple[int, ...], args: tuple[int, ...], regexes: list[ir.Regex]) -> list[ir.Expr]:
        made: list[ir.Expr] = []
        for i in range(0, len(nodes), 4):
            op, a, b, c = _OPS[nodes[i]], nodes[i + 1], nodes[i + 2], nodes[i + 3]
            if op == "Leaf":
                made.append(self.leaves[a])
            elif op == "Terminal":
                made.append(ir.Terminal(regexes[a]))
            elif op == "Call":
                made.append(ir.Call(self.names[a]))
            elif op == "Loop":
                made.append(ir.Loop(made[a], b, None if c < 0 else c))
            elif op == "Interleave":
                made.append(_interleave(made, args[a:]))
            else:
                kind = {"Sequence": ir.Sequence, "Choice": ir.Choice}[op]
                made.append(kind(tuple(made[part] for part in args[a : a + b])))
        return made


def _interleave(made: list[ir.Expr], args: tuple[int, ...]) -> ir.Interleave:
    low, high, obligations, ordered, separator, entries, required = args[:7]
    listed = tuple(
        ir.InterleaveEntry(
            made[head], made[body], None if slot < 0 else slot, discharges, distinct=bool(distinct)
        )
        for head, body, slot, discharges, distinct in (args[7 + 5 * i : 12 + 5 * i] for i in range(entries))
    )
    first = 7 + 5 * entries
    return ir.Interleave(
        listed,
        args[first : first + required],
        obligations,
        low,
        None if high < 0 else high,
        made[separator],
        bool(ordered),
    )
