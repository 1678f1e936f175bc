r"""Lowers anchors, word boundaries and look-around to plain regular languages.

Nodes are lowered from right to left, each with the language of the remainder that follows it: a look-ahead is then an
intersection with the remainder, and ``$`` reduces the remainder to the empty string. What precedes is a *context*: the
start of the string, or the kind of the last character; a remainder is a tuple with one language for each context. A
loop whose body contains assertions is unrolled when its count is small, and rewritten where a regular form is known.
"""

from __future__ import annotations

from collections.abc import Callable

from constrained.grammars import ir
from constrained.grammars.errors import UnsupportedConstraint
from constrained.grammars.regex import charset
from constrained.grammars.regex.analysis import nullable, single_character
from constrained.grammars.regex.ast import (
    AlternationNode,
    ConcatNode,
    EndAnchor,
    Lookaround,
    RegexNode,
    RepeatNode,
    StartAnchor,
    WordBoundary,
    lookaround_depth,
    pattern_problem,
)
from constrained.grammars.regex.charset import CodePointRanges

MAX_UNROLLED_COPIES = 40
"""Copies of a loop body that contains assertions."""

Continuations = tuple[ir.Regex, ...]
"""Language of the remainder of the string, by context; context 0 is the start of the string."""

_SOME = ir.repeat(ir.ANY_CHAR, 1)


def lower_to_regex(node: RegexNode, pattern: str, *, search: bool) -> ir.Regex:
    """The language of a tree; with `search`, that of the strings that contain a match.

    Raises:
        UnsupportedConstraint: an assertion has no known regular form at its position.
    """
    if isinstance(node, ir.Regex):
        return ir.concat(ir.TEXT, node, ir.TEXT) if search else node
    if search:
        node = _within_text(node)
    node = _settle_lookbehind(node)
    lowering = _LookaroundLowering(pattern, _kinds(node))
    return lowering.lower(node, lowering.everywhere(ir.EMPTY_STRING))[0]


def _within_text(node: RegexNode) -> RegexNode:
    if isinstance(node, AlternationNode):
        return AlternationNode(tuple(_within_text(part) for part in node.parts), node.depth)
    if isinstance(node, ir.Regex):
        return ir.concat(ir.TEXT, node, ir.TEXT)
    parts = node.parts if isinstance(node, ConcatNode) else (node,)
    return ConcatNode((ir.TEXT, *parts, ir.TEXT), lookaround_depth(node) + 1)


def _settle_lookbehind(node: RegexNode) -> RegexNode:
    """Rewrites a look-behind after a part without assertions as an intersection with that part.

    If the look-behind contains the start of the string, that part must be empty.
    """
    if isinstance(node, AlternationNode):
        return AlternationNode(tuple(_settle_lookbehind(part) for part in node.parts), node.depth)
    if not isinstance(node, ConcatNode):
        return node
    parts = list(node.parts)
    before: ir.Regex = ir.EMPTY_STRING
    while parts:
        first = parts[0]
        if isinstance(first, ir.Regex):
            before = ir.concat(before, first)
        elif isinstance(first, Lookaround) and not first.ahead and isinstance(first.part, ir.Regex):
            ending = ir.concat(ir.TEXT, first.part)
            before = ir.difference(before, ending) if first.negative else _meet(before, ending)
        elif (
            isinstance(first, StartAnchor)
            and first.newline is None
            and nullable(before)
            and _looks_behind(parts)
        ):
            before = ir.EMPTY_STRING
        else:
            break
        parts.pop(0)
    return ConcatNode((before, *parts), node.depth)


def _looks_behind(parts: list[RegexNode]) -> bool:
    """Whether a look-behind comes after the first part, with only parts without assertions between them."""
    for part in parts[1:]:
        if not isinstance(part, ir.Regex):
            return isinstance(part, Lookaround) and not part.ahead
    return False


def _kinds(node: RegexNode) -> tuple[CodePointRanges, ...]:
    """The kinds of last character that some assertion tells apart: a partition of all characters."""
    cuts: list[CodePointRanges] = []
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, StartAnchor) and item.newline:
            cuts.append(item.newline)
        elif isinstance(item, WordBoundary):
            cuts.append(item.word)
        elif isinstance(item, (ConcatNode, AlternationNode)):
            stack.extend(item.parts)
        elif isinstance(item, RepeatNode):
            stack.append(item.part)
        elif isinstance(item, Lookaround):
            stack.append(item.part)
            if not item.ahead:
                for part in item.part.parts if isinstance(item.part, AlternationNode) else (item.part,):
                    single = single_character(part) if isinstance(part, ir.Regex) else None
                    if single:
                        cuts.append(single)
    kinds: list[CodePointRanges] = [charset.ALL_CHARS]
    for cut in cuts:
        halves = [
            half
            for kind in kinds
            for half in (charset.intersection(kind, cut), charset.difference(kind, cut))
        ]
        kinds = [half for half in halves if half]
    return tuple(kinds)


def _meet(rest: ir.Regex, language: ir.Regex) -> ir.Regex:
    """The intersection; `language` contains only valid Unicode."""
    if rest is ir.TEXT:
        return language
    if isinstance(language, ir.Literal) and not language.data:
        return ir.EMPTY_STRING if nullable(rest) else ir.EMPTY_SET
    return ir.intersection(rest, language)


class _LookaroundLowering:
    def __init__(self, pattern: str, kinds: tuple[CodePointRanges, ...]) -> None:
        self.pattern = pattern
        self.kinds = kinds
        self.contexts = range(len(kinds) + 1)

    def everywhere(self, regex: ir.Regex) -> Continuations:
        return (regex,) * len(self.contexts)

    def each(self, language: Callable[[int], ir.Regex]) -> Continuations:
        return tuple(language(context) for context in self.contexts)

    def either(self, *rests: Continuations) -> Continuations:
        """The union of remainders; languages are compared by identity and stay shared."""
        cache: dict[tuple[int, ...], ir.Regex] = {}
        result: list[ir.Regex] = []
        for options in zip(*rests, strict=True):
            distinct = tuple({id(option): option for option in options}.values())
            key = tuple(map(id, distinct))
            if key not in cache:
                cache[key] = ir.union(*distinct)
            result.append(cache[key])
        return tuple(result)

    def refuse(self, at: int, reason: str) -> UnsupportedConstraint:
        return UnsupportedConstraint(
            "the regular expression cannot be enforced",
            pattern_problem(self.pattern, at, reason),
            action="rewrite it without this assertion",
        )

    # ------------------------------------------------------------ nodes

    def lower(self, node: RegexNode, rest: Continuations) -> Continuations:
        """Language of `node` followed by `rest`, for each context before `node`."""
        if isinstance(node, ir.Regex):
            return self.plain(node, rest)
        if isinstance(node, ConcatNode):
            return self.sequence(node, rest)
        if isinstance(node, AlternationNode):
            return self.either(*(self.lower(part, rest) for part in node.parts))
        if isinstance(node, StartAnchor):
            return self.each(lambda c: rest[c] if self.starts(node, c) else ir.EMPTY_SET)
        if isinstance(node, EndAnchor):
            return self.each(lambda c: _meet(rest[c], _end(node)))
        if isinstance(node, WordBoundary):
            return self.each(lambda c: self.boundary(node, c, rest[c]))
        if isinstance(node, Lookaround):
            return self.look(node, rest)
        return self.loop(node, rest)

    def plain(self, regex: ir.Regex, rest: Continuations) -> Continuations:
        if isinstance(regex, ir.Literal) and not regex.data:
            return rest
        if all(item is rest[0] for item in rest):
            return self.everywhere(ir.concat(regex, rest[0]))
        empty = nullable(regex)
        if len(self.kinds) == 1:
            sequence = ir.concat(_nonempty(regex) if empty else regex, rest[1])
        else:
            sequence = ir.union(
                *(
                    ir.concat(_ending(regex, kind), rest[i + 1])
                    for i, kind in enumerate(self.kinds)
                    if rest[i + 1] is not ir.EMPTY_SET
                )
            )
        return self.either(self.everywhere(sequence), rest) if empty else self.everywhere(sequence)

    def sequence(self, node: ConcatNode, rest: Continuations) -> Continuations:
        parts = list(node.parts)
        for i in range(len(parts) - 1):  # one character looked at, then one character: a smaller class
            look, after = parts[i], parts[i + 1]
            if (
                isinstance(look, Lookaround)
                and look.ahead
                and isinstance(look.part, ir.Regex)
                and isinstance(after, ir.Chars)
            ):
                lookahead = single_character(look.part)
                if lookahead:
                    keep = charset.difference if look.negative else charset.intersection
                    parts[i : i + 2] = [ir.EMPTY_STRING, ir.chars(keep(after.ranges, lookahead))]
        for part in reversed(parts):
            rest = self.lower(part, rest)
        return rest

    def after(self, context: int, ranges: CodePointRanges) -> bool:
        """Whether the last character is one of these: a kind lies within or without."""
        return context > 0 and charset.contains(ranges, self.kinds[context - 1][0][0])

    def starts(self, node: StartAnchor, context: int) -> bool:
        if context == 0:
            return True
        return node.newline is not None and self.after(context, node.newline)

    def boundary(self, node: WordBoundary, context: int, rest: ir.Regex) -> ir.Regex:
        after_word = self.after(context, node.word)
        word_follows = ir.concat(ir.chars(node.word), ir.TEXT)
        if after_word == node.negative:
            return _meet(rest, word_follows)
        excluded = word_follows if context or node.in_empty else ir.optional(word_follows)
        return ir.difference(rest, excluded)

    def look(self, node: Lookaround, rest: Continuations) -> Continuations:
        if not node.ahead:
            behind = self.seen_behind(node)
            return self.each(lambda c: ir.EMPTY_SET if behind[c] == node.negative else rest[c])
        inner = self.lower(node.part, self.everywhere(ir.TEXT))
        if node.negative:
            return self.each(lambda c: ir.difference(rest[c], inner[c]))
        return self.each(lambda c: _meet(rest[c], inner[c]))

    def seen_behind(self, node: Lookaround) -> list[bool]:
        """For each context, whether the look-behind's part matches just before."""
        behind = [False] * len(self.contexts)
        for part in node.part.parts if isinstance(node.part, AlternationNode) else (node.part,):
            single = single_character(part) if isinstance(part, ir.Regex) else None
            if isinstance(part, StartAnchor):
                matches = [self.starts(part, c) for c in self.contexts]
            elif isinstance(part, ir.Literal) and not part.data:
                matches = [True] * len(behind)
            elif single is not None:
                matches = [self.after(c, single) for c in self.contexts]
            else:
                raise self.refuse(
                    node.at, "look-behind over more than one character has no regular form here"
                )
            behind = [a or b for a, b in zip(behind, matches, strict=True)]
        return behind

    # ------------------------------------------------------------ loops

    def loop(self, node: RepeatNode, rest: Continuations) -> Continuations:
        copies = node.low if node.high is None else node.high
        if copies > MAX_UNROLLED_COPIES:
            raise self.refuse(node.at, f"an assertion is repeated more than {MAX_UNROLLED_COPIES} times")
        if node.high is None:
            result = self.star(node, rest)
        else:
            result = rest
            for _ in range(node.high - node.low):
                result = self.either(rest, self.lower(node.part, result))
        for _ in range(node.low):
            result = self.lower(node.part, result)
        return result

    def star(self, node: RepeatNode, rest: Continuations) -> Continuations:
        """Any number of copies, then `rest`."""
        body = self.tempered(node.part)
        if body is not None and all(isinstance(item, ir.Literal) and not item.data for item in rest):
            return self.everywhere(body)
        if len(self.kinds) > 1 or not _only_ends(node.part):
            raise self.refuse(node.at, "an assertion inside an unbounded loop has no regular form here")
        # Inside the string neither anchor holds. After an iteration that uses `$` all others are empty, and
        # before one that uses `^` all others are empty.
        interior = ir.repeat(self.lower(_without_anchors(node.part), self.everywhere(ir.EMPTY_STRING))[1])
        inside = ir.concat(interior, ir.union(rest[1], self.lower(node.part, rest)[1]))
        return ir.union(rest[0], self.lower(node.part, (rest[0], inside))[0]), inside

    def tempered(self, body: RegexNode) -> ir.Regex | None:
        """``((?!x).)*`` up to the end of the string: no suffix of a string of such characters starts with ``x``."""
        if not isinstance(body, ConcatNode):
            return None
        *looks, last = body.parts
        if not isinstance(last, ir.Regex) or single_character(last) is None:
            return None
        language = ir.repeat(last)
        for look in looks:
            if not isinstance(look, Lookaround) or not look.ahead:
                return None
            inner = self.lower(look.part, self.everywhere(ir.TEXT))
            if any(item is not inner[0] for item in inner):
                return None
            excluded = _meet(_SOME, inner[0]) if look.negative else ir.difference(_SOME, inner[0])
            language = ir.difference(language, ir.concat(ir.TEXT, excluded))
        return language


def _end(node: EndAnchor) -> ir.Regex:
    if node.newline is None:
        return ir.EMPTY_STRING
    newline = ir.chars(node.newline)
    return ir.optional(newline) if node.final else ir.optional(ir.concat(newline, ir.TEXT))


def _nonempty(regex: ir.Regex) -> ir.Regex:
    if isinstance(regex, ir.Repeat) and regex.low == 0 and not nullable(regex.part):
        return ir.repeat(regex.part, 1, regex.high)
    return ir.difference(regex, ir.EMPTY_STRING)


def _ending(regex: ir.Regex, kind: CodePointRanges) -> ir.Regex:
    """The strings of `regex` whose last character is of this kind."""
    if isinstance(regex, ir.Chars):
        return ir.chars(charset.intersection(regex.ranges, kind))
    if regex is ir.TEXT:
        return ir.concat(ir.TEXT, ir.chars(kind))
    return ir.intersection(regex, ir.concat(ir.TEXT, ir.chars(kind)))


def _only_ends(node: RegexNode) -> bool:
    """No assertion but ``^`` and ``$`` at the very ends of the string."""
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, (ConcatNode, AlternationNode)):
            stack.extend(item.parts)
        elif isinstance(item, RepeatNode):
            stack.append(item.part)
        elif isinstance(item, (StartAnchor, EndAnchor)):
            if item.newline is not None:
                return False
        elif not isinstance(item, ir.Regex):
            return False
    return True


def _without_anchors(node: RegexNode) -> RegexNode:
    """The tree where ``^`` and ``$`` never hold."""
    if isinstance(node, (StartAnchor, EndAnchor)):
        return ir.EMPTY_SET
    if isinstance(node, ConcatNode):
        return ConcatNode(tuple(map(_without_anchors, node.parts)), node.depth)
    if isinstance(node, AlternationNode):
        return AlternationNode(tuple(map(_without_anchors, node.parts)), node.depth)
    if isinstance(node, RepeatNode):
        return RepeatNode(_without_anchors(node.part), node.low, node.high, node.at, node.depth)
    return node
