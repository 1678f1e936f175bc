"""Objects and arrays: from a shape to the expression of everything between the brackets.

Members stand in this order: the declared properties in the order of the schema, then required names that no
schema declares, then any number of others. One expression for each place between members (`tail`: one has been
written) is shared by everything before it, so the size is linear in the number of properties. A key may be
written twice among the others: readers keep the last, so the value stays valid.

Where members are counted, stand in any order, or items of an array must differ, they are the entries of a bag. No
key comes twice in any order, nor where that would make up for a key that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from grammars import ir
from grammars.json_schema.text.punctuation import JsonPunctuation
from grammars.transform.interleave import interleave


class PropertyMember(NamedTuple):
    """A declared property: its name, whether it must be there, and what its value is."""

    name: str
    required: bool
    value: ir.Expr


def object_expr(
    members: Sequence[PropertyMember],
    others: Sequence[tuple[ir.Regex, ir.Expr]],
    low: int,
    high: int | None,
    layout: JsonPunctuation,
    *,
    ordered: bool = True,
) -> ir.Expr:
    """Objects with these members, then any number of others, and from `low` to `high` members in all.

    Unless `ordered`, all of them stand in any order.
    """
    members = [member for member in members if member.required or member.value is not ir.EMPTY_LANGUAGE]
    more = ir.choice(*(ir.sequence(layout.key(keys), value) for keys, value in others))
    needed = sum(member.required for member in members)
    if low <= needed:
        low = 0  # the required members see to it
    if high is not None and (high > ir.MAX_COUNT or (more is ir.EMPTY_LANGUAGE and high >= len(members))):
        high = None
    if low == 0 and high is None and ordered:
        return _uncounted(members, more, needed, layout)
    if low > ir.MAX_COUNT and more is ir.EMPTY_LANGUAGE:
        return ir.EMPTY_LANGUAGE
    low = min(low, ir.MAX_COUNT)
    return interleaved_members(members, others, low, high, layout, ordered=ordered)


def interleaved_members(
    members: Sequence[PropertyMember],
    others: Sequence[tuple[ir.Regex, ir.Expr]],
    low: int,
    high: int | None,
    layout: JsonPunctuation,
    *,
    ordered: bool,
) -> ir.Expr:
    """`object_expr` where members are counted, or stand in any order."""
    entries = [
        ir.InterleaveEntry(layout.property_key(member.name), member.value, slot)
        for slot, member in enumerate(members)
    ]
    needed = [slot for slot, member in enumerate(members) if member.required]
    if ordered and low <= len(needed) + 1:  # a key that comes twice satisfies nothing
        entries += [ir.InterleaveEntry(layout.key(keys), value) for keys, value in others]
    else:
        colon = ir.Terminal(layout.colon)
        entries += [
            ir.InterleaveEntry(ir.Terminal(keys), ir.sequence(colon, value), distinct=True)
            for keys, value in others
        ]

    def between(least: int) -> ir.Expr:
        return interleave(
            entries, required=needed, low=least, high=high, separator=layout.comma, ordered=ordered
        )

    full = ir.sequence(layout.open_object, between(max(low, 1)), layout.close_object)
    return full if needed or low else ir.choice(layout.empty_object, full)


def _uncounted(
    members: Sequence[PropertyMember], more: ir.Expr, needed: int, layout: JsonPunctuation
) -> ir.Expr:
    """`object_expr` where the number of members is free. Nothing here can be `ir.NEVER` but the first `head`."""
    comma, close = layout.comma, layout.close_object
    head: ir.Expr = ir.EMPTY_LANGUAGE  # a member must follow
    tail: ir.Expr = close  # one was just written
    if more is not ir.EMPTY_LANGUAGE:
        again = ir.Loop(ir.Sequence((comma, more)), 0, None)
        head, tail = ir.Sequence((more, again, close)), ir.Sequence((again, close))
    open_end = True  # whether no required member is still to come
    for i in range(len(members) - 1, -1, -1):
        name, required, value = members[i]
        if required:
            open_end = False
            if i == 0 or not members[i - 1].required:  # or else nothing comes to it without a comma
                head = ir.Sequence((layout.property_key(name), value, tail))
            if i:
                tail = ir.Sequence((layout.next_property_key(name), value, tail))
        else:
            given = ir.Sequence((layout.property_key(name), value, tail))
            head = given if head is ir.EMPTY_LANGUAGE else ir.Choice((given, head))
            following = ir.Sequence((comma, head))
            tail = ir.Choice((close, following)) if open_end else following
    full = ir.sequence(layout.open_object, head)
    return ir.choice(layout.empty_object, full) if needed == 0 else full


def array_expr(
    prefix: Sequence[ir.Expr],
    rest: Callable[[], ir.Expr],
    low: int,
    high: int | None,
    layout: JsonPunctuation,
) -> ir.Expr:
    """Arrays of these items, then any number of `rest`, and from `low` to `high` items in all."""
    prefix = prefix if high is None else prefix[:high]
    for i, item in enumerate(prefix):
        if item is ir.EMPTY_LANGUAGE:
            prefix, high = prefix[:i], i
            break
    size = len(prefix)
    if high is not None and high < low:
        return ir.EMPTY_LANGUAGE
    more = ir.EMPTY_LANGUAGE if high is not None and high <= size else rest()
    following = ir.sequence(layout.comma, more)

    def repeat(written: int) -> ir.Expr:
        least, most = max(0, low - written), None if high is None else high - written
        return ir.sequence(ir.loop(following, least, most), layout.close_array)

    if size:
        tail = repeat(size)
        for i in range(size - 1, 0, -1):
            tail = ir.sequence(layout.comma, prefix[i], tail)
            if i >= low:
                tail = ir.choice(layout.close_array, tail)
        full = ir.sequence(layout.open_array, prefix[0], tail)
    elif high == 0 or more is ir.EMPTY_LANGUAGE:
        full = ir.EMPTY_LANGUAGE
    else:
        full = ir.sequence(layout.open_array, more, repeat(1))
    return ir.choice(layout.empty_array, full) if low == 0 else full


def unique_array_expr(
    listed: Sequence[ir.Expr],
    scalars: Sequence[ir.Regex],
    low: int,
    high: int | None,
    layout: JsonPunctuation,
) -> ir.Expr:
    """Arrays of `low` to `high` items of which no two are equal.

    Args:
        listed: the texts of each value that may be an item.
        scalars: languages of strings or numbers (these without exponent), without a value in common with each other
            and with `listed`.
        low: least number of items.
        high: greatest number of items, if there is one.
        layout: terminals of the punctuation.
    """
    entries = [ir.InterleaveEntry(value, ir.EPSILON, slot) for slot, value in enumerate(listed)]
    entries += [ir.InterleaveEntry(ir.Terminal(regex), ir.EPSILON, distinct=True) for regex in scalars]
    items = interleave(entries, low=max(low, 1), high=high, separator=layout.comma)
    full = ir.EMPTY_LANGUAGE if high == 0 else ir.sequence(layout.open_array, items, layout.close_array)
    return ir.choice(layout.empty_array, full) if low == 0 else full
