"""From the formats of a structural tag to a grammar.

Sequences are concatenations of languages, as in XGrammar: where a text can be split in several ways, each counts. Free text
excludes the end of the nearest tag around it, so in practice there is one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from constrained.constraint.shared_rules import import_shared, shared_grammar
from constrained.constraint.structural import formats as f
from constrained.constraint.structural.reader import below
from constrained.errors import ConstraintTooLarge, Problem, UnsupportedConstraint
from constrained.grammars import ir
from constrained.grammars.counted import CountedGrammar, CountedText
from constrained.grammars.lexer import reject_lexer_grammar
from constrained.grammars.text.free_text import text_up_to, text_without, texts_up_to
from constrained.grammars.transform.imports import fresh_name
from constrained.grammars.transform.nullable import remove_nullable_loops
from constrained.vocabulary.special_tokens import free_letters, letters


def grammar_of(form: f.StructuralFormat, special_tokens: Iterable[str] = ()) -> ir.Grammar:
    """The grammar of a format.

    Args:
        form: the format.
        special_tokens: names of all special tokens of the completion, those of the format included.

    Raises:
        ConstraintError: a content cannot be enforced; the place is in the definition.
        ConstraintTooLarge: a content is too large.
    """
    names = tuple(special_tokens)
    counting = _Counting(free_letters(names))
    rules = _Rules(names, counting).grammar(form)
    if not counting.texts:
        return rules
    relaxed = _Rules(names, None).grammar(form)
    return CountedGrammar.joined(relaxed, rules, counting.texts.values())


class _Counting:
    """The texts of a limited number of tokens, and the letters that stand for them."""

    def __init__(self, free: Sequence[bytes]) -> None:
        self.free = free
        self.texts: dict[tuple[ir.Regex, int, bool], CountedText] = {}

    def letter(self, place: str, regex: ir.Regex, most: int, *, whole: bool) -> bytes:
        """The letter of a text: equal texts have one."""
        key = (regex, most, whole)
        if key not in self.texts:
            if len(self.texts) == len(self.free):
                raise ConstraintTooLarge(
                    "the structural tag is too large",
                    Problem(place, "too many tokens, and texts with different limits of tokens"),
                    action="use the same limit for several texts",
                )
            self.texts[key] = CountedText(
                self.free[len(self.texts)], ir.Grammar.of(regex), most, whole, place
            )
        return self.texts[key].letter


class _Rules:
    """The rules so far."""

    def __init__(self, special_tokens: Sequence[str], counting: _Counting | None) -> None:
        self.special_tokens = special_tokens
        self.counting = counting  # None: tokens are not counted
        self.marks = letters(special_tokens)  # the byte that stands for a token, which is in no text
        self.rules: dict[str, ir.Expr] = {}
        self.plain: set[ir.Expr] = (
            set()
        )  # terminals of fixed and of free text, which are joined where they meet
        self.bodies: dict[f.Tag, ir.Expr] = {}
        self.may_repeat_nothing = False

    def grammar(self, form: f.StructuralFormat) -> ir.Grammar:
        """The rules of the outermost format."""
        body = self.expr(form, ())
        name = fresh_name("structural tag", self.rules)
        self.rules[name] = body
        grammar = ir.Grammar(self.rules, name)
        return remove_nullable_loops(grammar) if self.may_repeat_nothing else grammar

    def expr(self, form: f.StructuralFormat, ends: tuple[str | f.Token, ...]) -> ir.Expr:
        """The expression of a format; free text in it excludes `ends`."""
        match form:
            case f.ConstString(text=text):
                return self.fixed(text)
            case f.OneToken(token=token):
                return self.fixed(token)
            case f.AnyTokens(max_tokens=tokens):
                return self.counted(form, text_without(_texts(ends)), tokens)
            case f.AnyToken():
                some = ir.intersection(ir.repeat(ir.ANY_CHAR, 1), text_without(_texts(ends)))
                return self.counted(form, some, 1, whole=True)
            case f.Content():
                return self.content(form)
            case f.AnyText(excludes=excludes, until=str(end)):
                return self.free(text_up_to(end, excludes))
            case f.AnyText(excludes=excludes, max_chars=most, max_tokens=tokens):
                allowed = text_without((*excludes, *_texts(ends)))
                if most is not None:
                    allowed = ir.intersection(ir.repeat(ir.ANY_CHAR, 0, most), allowed)
                return self.counted(form, allowed, tokens)
            case f.SequenceFormat(elements=elements):
                return self.joined(*(self.expr(one, ends) for one in elements))
            case f.OrFormat(elements=elements):
                return self.one_of([self.expr(one, ends) for one in elements])
            case f.RepeatFormat(content=content, low=low, high=high):
                return self.repeated(self.expr(content, ends), low, high)
            case f.Tag():
                return self.joined(self.fixed(form.begin), self.body(form, ends))
            case f.TagsWithSeparator():
                return self.separated(form, ends)
            case f.TriggeredTags():
                return self.triggered(form, ends)
            case f.Dispatch():
                return self.dispatch(form, ends)
        raise TypeError(f"{type(form).__name__} is not a format")

    def fixed(self, boundary: str | f.Token) -> ir.Expr:
        """Exactly this text or token."""
        return self.free(self.literal(boundary)) if boundary else ir.EPSILON

    def literal(self, boundary: str | f.Token) -> ir.Regex:
        """Exactly this text or token, as a regular expression."""
        return ir.literal(self.marks[boundary.name] if isinstance(boundary, f.Token) else boundary)

    def free(self, regex: ir.Regex) -> ir.Expr:
        """A terminal that is joined with its neighbours."""
        expr = ir.Terminal(regex)
        self.plain.add(expr)
        return expr

    def counted(
        self, form: f.StructuralFormat, regex: ir.Regex, most: int | None, *, whole: bool = False
    ) -> ir.Expr:
        """Free text of at most so many tokens."""
        if most == 0:
            return ir.EPSILON
        if most is None or self.counting is None:
            return self.free(regex)
        return self.free(ir.literal(self.counting.letter(form.place, regex, most, whole=whole)))

    def joined(self, *parts: ir.Expr) -> ir.Expr:
        """A sequence in which fixed and free text that meet are one terminal."""
        flat: list[ir.Expr] = []
        for part in parts:
            for piece in part.parts if isinstance(part, ir.Sequence) else (part,):
                last = flat[-1] if flat else None
                if (
                    piece in self.plain
                    and last in self.plain
                    and isinstance(last, ir.Terminal)
                    and isinstance(piece, ir.Terminal)
                ):
                    flat[-1] = self.free(ir.concat(last.regex, piece.regex))
                else:
                    flat.append(piece)
        return ir.sequence(*flat)

    def one_of(self, parts: Sequence[ir.Expr]) -> ir.Expr:
        """Any of these; the terminals among them are one, so a text of several of them is read once."""
        terminals = dict.fromkeys(part for part in parts if isinstance(part, ir.Terminal))
        if len(terminals) > 1:
            joined = self.free(ir.union(*(one.regex for one in terminals)))
            parts = [joined, *(part for part in parts if not isinstance(part, ir.Terminal))]
        return ir.choice(*parts)

    def repeated(self, part: ir.Expr, low: int, high: int | None) -> ir.Expr:
        """So many of these; terminals that follow each other are one, so a text is read once, however it is divided."""
        if isinstance(part, ir.Terminal):
            return self.free(ir.repeat(part.regex, low, high))
        self.may_repeat_nothing = True
        if isinstance(part, ir.Choice) and low == 0 and high is None:
            terminals = [one for one in part.parts if isinstance(one, ir.Terminal)]
            if terminals:
                text = self.free(ir.repeat(ir.union(*(one.regex for one in terminals))))
                others = ir.choice(*(one for one in part.parts if one not in terminals))
                return self.joined(text, ir.loop(self.joined(others, text)))
        return ir.loop(part, low, high)

    def content(self, form: f.Content) -> ir.Expr:
        """The rules of a constraint."""
        constraint = form.constraint.among_special_tokens(self.special_tokens)
        grammar = below(form.source, lambda: shared_grammar(constraint))
        reject_lexer_grammar(grammar, "inside of free text")
        body = grammar.rules[grammar.start]
        if isinstance(body, ir.Terminal):
            return ir.Terminal(
                ir.intersection(body.regex, text_without(form.excludes)) if form.excludes else body.regex
            )
        return import_shared(constraint, self.rules, form.source)

    def body(self, tag: f.Tag, ends: tuple[str | f.Token, ...]) -> ir.Expr:
        """A tag after its ``begin``, as a rule of its own unless it is a terminal."""
        body = self.bodies.get(tag)
        if body is None:
            inner = tuple(end for end in tag.ends if end) or ends
            content = self.expr(tag.content, () if tag.first_end else inner)
            if tag.first_end and not (isinstance(tag.content, f.Content) and tag.content.constraint.is_json):
                body = self.up_to_end(tag, content)
            elif tag.ends == ("",):
                body = content
            else:
                body = self.joined(content, self.free(ir.union(*map(self.literal, tag.ends))))
            if not isinstance(body, ir.Terminal):
                name = fresh_name(tag.place, self.rules)
                self.rules[name] = body
                body = ir.call(name)
            self.bodies[tag] = body
        return body

    def up_to_end(self, tag: f.Tag, content: ir.Expr) -> ir.Expr:
        """A content and the end of its tag, where that first ends.

        Raises:
            UnsupportedConstraint: the content is no regular expression.
        """
        (end,) = _texts(tag.ends)
        if not isinstance(content, ir.Terminal):
            inside = " or ".join(one.constraint.render() for one in f.contents(tag.content))
            raise UnsupportedConstraint(
                "the end of a section is ambiguous",
                Problem(inside, f"can itself contain {end!r}"),
                action="use JSON, a regex or a choice as the content",
            )
        closed = ir.concat(content.regex, ir.literal(end))
        return ir.Terminal(ir.intersection(closed, text_up_to(end, [end])))

    def separated(self, form: f.TagsWithSeparator, ends: tuple[str | f.Token, ...]) -> ir.Expr:
        """Tags with a separator between them."""
        one = self.whole(form.tags, ends)
        if form.stop_after_first:
            return ir.loop(one, 0 if not form.at_least_one else 1, 1)
        self.may_repeat_nothing |= not form.separator and not all(tag.begin for tag in form.tags)
        name = fresh_name(f"{form.place}/tags", self.rules)
        self.rules[name] = one
        call = ir.call(name)
        several = self.joined(call, ir.loop(self.joined(self.fixed(form.separator), call)))
        return several if form.at_least_one else ir.choice(ir.EPSILON, several)

    def whole(self, tags: Iterable[f.Tag], ends: tuple[str | f.Token, ...]) -> ir.Expr:
        """One of the tags."""
        return ir.choice(*(self.joined(self.fixed(tag.begin), self.body(tag, ends)) for tag in tags))

    def triggered(self, form: f.TriggeredTags, ends: tuple[str | f.Token, ...]) -> ir.Expr:
        """Free text with tags."""
        if form.at_least_one and form.stop_after_first:
            return self.whole(form.tags, ends)
        sections = []
        for trigger in form.triggers:
            begun = [
                self.joined(self.fixed(rest), self.body(tag, ends))
                for tag in form.tags
                if (rest := _after(trigger, tag.begin)) is not None
            ]
            sections.append((trigger, ir.choice(*begun)))
        text = self.interrupted(
            sections, (*form.excludes, *ends), loop=not form.stop_after_first, low=form.low, high=form.high
        )
        return self.joined(self.whole(form.tags, ends), text) if form.at_least_one else text

    def dispatch(self, form: f.Dispatch, ends: tuple[str | f.Token, ...]) -> ir.Expr:
        """Free text with formats after patterns."""
        sections: dict[str | f.Token, list[ir.Expr]] = {}
        for pattern, content in form.rules:
            sections.setdefault(pattern, []).append(self.expr(content, ends))
        together = [(pattern, ir.choice(*contents)) for pattern, contents in sections.items()]
        return self.interrupted(together, form.excludes, loop=form.loop)

    def interrupted(
        self,
        sections: list[tuple[str | f.Token, ir.Expr]],
        excludes: tuple[str | f.Token, ...],
        *,
        loop: bool,
        low: int = 0,
        high: int | None = None,
    ) -> ir.Expr:
        """Free text in which each marker is followed by its section: `low` to `high` of them, or at most one at the end."""
        markers, unwanted = _texts(marker for marker, _ in sections), _texts(excludes)
        rest = text_without((*markers, *unwanted))
        opened: dict[str | f.Token, ir.Regex] = dict(
            zip(markers, texts_up_to(markers, unwanted), strict=True)
        )
        begun = [
            # A token is in no text, so the text before it is any free text.
            self.joined(self.free(opened.get(marker) or ir.concat(rest, self.literal(marker))), section)
            for marker, section in sections
        ]
        if not loop:
            return ir.choice(*begun, self.free(rest))
        return self.joined(ir.loop(ir.choice(*begun), low, high), self.free(rest))


def _texts(boundaries: Iterable[str | f.Token]) -> tuple[str, ...]:
    """The texts among texts and tokens: free text contains no token anyway."""
    return tuple(one for one in boundaries if isinstance(one, str))


def _after(trigger: str | f.Token, begin: str | f.Token) -> str | None:
    """What follows a trigger in a begin; None if it begins otherwise."""
    if isinstance(trigger, str) and isinstance(begin, str):
        return begin.removeprefix(trigger) if begin.startswith(trigger) else None
    return "" if begin == trigger else None
