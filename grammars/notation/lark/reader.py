r"""Lark's notation, read into rules and terminals as they are written.

    start: pair ("," pair)*            // a comment; "#" begins one too
    ?pair.2: NAME "=" [value] -> named // prefixes, priorities of rules and aliases say nothing about the language
    value: NUMBER | "on"i | %json {"type": "object"} | @person | _many{NAME, ";"}
    _many{x, separator}: x (separator x)~0..9
    NAME.1: /[a-z_]\w*/i
    %import common.NUMBER
    %import common (WS, INT -> WHOLE)
    %ignore WS

A rule goes on in the next line if that begins with ``|``; lines may be broken in brackets, and after a backslash.
``%json`` and ``@name`` are additions: JSON of a schema, and a constraint that the caller passes. A first line
``%llguidance {}`` is skipped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from grammars.notation.lark import source as src
from grammars.notation.lark.common import LIBRARY
from grammars.notation.reader import Reader

_SPACE = re.compile(r"(?:[ \t\f]|\\[ \t]*\r?\n|//[^\n]*|#[^\n]*)*")
_LINES = re.compile(r"(?:\s|\\[ \t]*\r?\n|//[^\n]*|#[^\n]*)*")
_BAR = re.compile(r"(?:\s+|(?://|#)[^\n]*(?:\n|\Z))*\|")
_NAME = re.compile(r"_{0,2}(?:[a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*)(?![A-Za-z0-9_])")
_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIORITY = re.compile(r"\.\s*([+-]?\d{1,9})(?!\d)")
_COUNT = re.compile(r"~\s*(\d+)(?:\s*\.\.\s*(\d+))?")
_DIGITS = 20
_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"(i?)(?![A-Za-z])')
_PATTERN = re.compile(r"/(?!/)((?:\\.|[^/\\])*)/([imslux]*)(?![A-Za-z])", re.DOTALL)
_STATEMENT = re.compile(r"%[a-z_]+")
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_HARMLESS = frozenset({"no_forcing", "max_items_in_row", "allow_initial_skip"})


@dataclass(slots=True)
class _Group:
    at: int
    close: str
    choices: list[src.Node] = field(default_factory=list)
    parts: list[src.Node] = field(default_factory=list)


class _Lark(Reader):
    notation = "Lark"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.source = src.Source()

    def space(self, *, nested: bool) -> None:
        self.match(_LINES if nested else _SPACE)

    # ------------------------------------------------------------ statements

    def run(self) -> src.Source:
        """Reads the whole text."""
        self.space(nested=True)
        while self.next():
            at = self.at
            if (statement := self.match(_STATEMENT)) is not None:
                self.statement(statement, at)
            else:
                self.definition(self.source, at)
            self.space(nested=False)
            if self.next() not in ("", "\r", "\n"):
                self.fail("unexpected character: the end of the line expected")
            self.space(nested=True)
        return self.source

    def statement(self, name: str, at: int) -> None:
        self.space(nested=False)
        if name == "%ignore":
            self.source.ignored.append(self.expansions())
        elif name == "%import":
            self.imports()
        elif name in ("%override", "%extend"):
            self.change(name, at)
        elif name == "%declare":
            self.refuse("declares terminals without texts; nothing can be generated for them", at)
        elif name == "%llguidance":
            self.header(at)
        else:
            self.fail(f"unknown statement {name}", at)

    def header(self, at: int) -> None:
        options = self.json("%llguidance")
        if not isinstance(options, dict):
            self.fail("%llguidance takes an object", at)
        for option, value in options.items():
            if option not in _HARMLESS or (option == "allow_initial_skip" and value is False):
                self.refuse(f"the option {option!r} of %llguidance changes what is allowed", at)

    def imports(self) -> None:
        where = self.at
        path = self.text[where:].split(None, 1)[0] if self.text[where:].strip() else ""
        if not self.take("common"):
            self.refuse(
                f"only common.* can be imported, not {path.split('(')[0] or 'nothing'}",
                where,
                action="copy the rules that you need into the grammar",
            )
        self.space(nested=False)
        if self.take("."):
            self.space(nested=False)
            self.imported()
            return
        if not self.take("("):
            self.fail(". or ( expected after common")
        while True:
            self.space(nested=True)
            self.imported()
            self.space(nested=True)
            if self.take(")"):
                return
            if not self.take(","):
                self.fail(", or ) expected")

    def imported(self) -> None:
        """One name out of the library, perhaps under another name."""
        at = self.at
        name = self.match(_NAME)
        library = _library()
        if name is None or name not in library.terminals:
            self.fail(
                f"common has no {name or 'such name'}; it has {', '.join(sorted(library.terminals))}", at
            )
        self.space(nested=False)
        target = name
        if self.take("->"):
            self.space(nested=False)
            found = self.match(_NAME)
            if found is None or not src.is_terminal(found):
                self.fail("the name of a terminal expected: capital letters")
            target = found
        self.bring(library.terminals[name].body, target, name, at)

    def bring(self, body: src.Node, target: str, name: str, at: int) -> None:
        """Defines an imported terminal, and those that it is made of under names that no one writes."""
        self.define_terminal(self.source, target, src.Definition(at, _renamed(body)))
        todo = [body]
        while todo:
            node = todo.pop()
            todo.extend(src.parts_of(node))
            if isinstance(node, src.Name) and f"common.{node.name}" not in self.source.terminals:
                inner = _library().terminals[node.name]
                self.source.terminals[f"common.{node.name}"] = src.Definition(at, _renamed(inner.body))
                todo.append(inner.body)

    def change(self, statement: str, at: int) -> None:
        """``%override`` and ``%extend`` of something that stands before."""
        made = src.Source()
        self.definition(made, self.at)
        for new, old in ((made.rules, self.source.rules), (made.terminals, self.source.terminals)):
            for name, definition in new.items():
                if name not in old:
                    self.fail(f"{statement} of {name}, which is not defined before", at)
                if old[name].parameters != definition.parameters:
                    self.refuse(f"{statement} with other parameters", at)
                if statement == "%extend":
                    definition.body = src.Choice(definition.at, (old[name].body, definition.body))
                    definition.priority = old[name].priority
                old[name] = definition

    def definition(self, source: src.Source, at: int) -> None:
        """A rule or terminal."""
        prefix = self.match(re.compile(r"[?!]{0,2}"))
        name = self.match(_NAME)
        if name is None:
            if self.match(_ALIAS) is not None:
                self.fail("names are all in small letters (rules) or all in capitals (terminals)", at)
            self.fail("the name of a rule or terminal, or a statement, expected", at)
        terminal = src.is_terminal(name)
        if terminal and prefix:
            self.fail("terminals take no ? and !", at)
        if self.next() == "[":
            self.refuse("attributes of rules are another engine's", self.at, action="remove them")
        parameters = self.parameters(name, at) if self.next() == "{" else ()
        found = _PRIORITY.match(self.text, self.at)
        priority = int(found[1]) if found else 0
        self.at = found.end() if found else self.at
        self.space(nested=False)
        if not self.take(":"):
            self.fail(f": expected after {name}")
        self.space(nested=False)
        made = src.Definition(at, self.expansions(), parameters, priority)
        if terminal:
            self.define_terminal(source, name, made)
            return
        if name in source.rules:
            self.twice(name, source.rules[name].at, at)
        source.rules[name] = made

    def define_terminal(self, source: src.Source, name: str, made: src.Definition) -> None:
        if name in source.terminals:
            self.twice(name, source.terminals[name].at, made.at)
        source.terminals[name] = made

    def twice(self, name: str, first: int, at: int) -> None:
        self.fail(f"{name} is defined before, at {self.problem('', first).place}", at)

    def parameters(self, name: str, at: int) -> tuple[str, ...]:
        """``{x, y}`` after the name of a template."""
        if src.is_terminal(name):
            self.refuse("terminals with parameters are not part of Lark", at)
        self.at += 1
        found: list[str] = []
        while True:
            self.space(nested=True)
            where = self.at
            parameter = self.match(_NAME)
            if parameter is None or src.is_terminal(parameter) or parameter in found:
                self.fail("the name of a parameter expected, in small letters and only once", where)
            found.append(parameter)
            self.space(nested=True)
            if self.take("}"):
                return tuple(found)
            if not self.take(","):
                self.fail(", or } expected")

    # ------------------------------------------------------------ expansions

    def expansions(self) -> src.Node:
        """Everything up to the end of a rule."""
        stack = [_Group(self.at, "")]
        while True:
            group = stack[-1]
            nested = len(stack) > 1
            self.space(nested=nested)
            if not nested and (bar := _BAR.match(self.text, self.at)):
                self.at = bar.end() - 1
            at = self.at
            if self.take("("):
                stack.append(_Group(at, ")"))
            elif self.take("["):
                stack.append(_Group(at, "]"))
            elif self.next() and self.next() in ")]":
                if self.next() != group.close:
                    self.fail(f"{group.close or 'nothing'} is open that could be closed here")
                self.at += 1
                stack.pop()
                node = self.grouped(group)
                stack[-1].parts.append(src.Loop(group.at, node, 0, 1) if group.close == "]" else node)
            elif self.take("|"):
                group.choices.append(src.Sequence(at, tuple(group.parts)))
                group.parts = []
            elif self.take("->"):
                self.space(nested=nested)
                if self.match(_ALIAS) is None:
                    self.fail("the name of an alias expected")
                self.space(nested=nested)
                ends = self.next() in ("", "\r", "\n", "|", ")", "]") or not self.next()
                if not ends:
                    self.fail("an alias ends its alternative: |, a closing bracket or a new line expected")
            elif self.repetition_of(group):
                pass
            elif (found := self.atom()) is not None:
                group.parts.append(found)
            elif nested:
                if not self.next():
                    self.fail("the bracket is never closed", group.at)
                self.fail("unexpected character")
            else:
                return self.grouped(group)

    def grouped(self, group: _Group) -> src.Node:
        last = src.Sequence(group.at, tuple(group.parts))
        return src.Choice(group.at, (*group.choices, last)) if group.choices else last

    def repetition_of(self, group: _Group) -> bool:
        at = self.at
        low, high = 0, None
        if self.take("*"):
            pass
        elif self.take("+"):
            low = 1
        elif re.compile(r"\?(?![?!]*[a-z_])").match(self.text, at):
            self.at += 1
            high = 1
        elif self.next() == "~":
            found = _COUNT.match(self.text, at)
            if found is None:
                self.fail("a count is ~n or ~n..m")
            self.at = found.end()
            low = int(found[1][:_DIGITS])
            high = low if found[2] is None else int(found[2][:_DIGITS])
            if high < low:
                self.fail("the greater count comes first", at)
        else:
            return False
        if not group.parts:
            self.fail("nothing stands before this that could be repeated", at)
        group.parts[-1] = src.Loop(at, group.parts[-1], low, high)
        return True

    def atom(self) -> src.Node | None:
        """A literal, a name, a template with arguments, or something embedded."""
        at = self.at
        simple = self.value()
        if simple is not None:
            return simple
        if self.take("%json"):
            return src.Json(at, self.json("%json"))
        if self.text.startswith(("%regex", "%lark"), at) or self.next() == "<":
            self.refuse("is a construct of another engine", at, action="write a terminal /.../, or use @name")
        if self.take("@"):
            name = self.match(_ALIAS)
            if name is None:
                self.fail("the name of a constraint expected after @")
            return src.Embedded(at, name)
        return None

    def value(self) -> src.Node | None:
        """What may be an argument of a template."""
        at = self.at
        if self.next() == '"':
            return self.string_or_range(at)
        if self.next() == "/":
            found = _PATTERN.match(self.text, at)
            if found is None:
                self.fail("the regular expression is never closed, or has unknown flags", at)
            if "\n" in found[1] and "x" not in found[2]:
                self.fail("only a regular expression with the flag x may be broken into lines", at)
            self.at = found.end()
            return src.Pattern(at, self.unescaped(found[1], at), found[2])
        name = self.match(_NAME)
        if name is None:
            if self.match(_ALIAS) is not None:
                self.fail("names are all in small letters (rules) or all in capitals (terminals)", at)
            return None
        if self.next() == "{":
            return self.use(name, at)
        return src.Name(at, name)

    def use(self, name: str, at: int) -> src.Node:
        """The arguments of a template; those that are templates again are kept on a stack."""
        stack: list[tuple[str, int, list[src.Node]]] = [(name, at, [])]
        self.at += 1
        while True:
            self.space(nested=True)
            where = self.at
            nested = _NAME.match(self.text, where)
            if nested and self.text.startswith("{", nested.end()):
                self.at = nested.end() + 1
                stack.append((nested.group(), where, []))
                continue
            node = self.value()
            if node is None:
                self.fail("an argument expected: a name or a literal")
            while True:
                stack[-1][2].append(node)
                self.space(nested=True)
                if self.take(","):
                    break
                if not self.take("}"):
                    self.fail(", or } expected")
                opened, place, arguments = stack.pop()
                node = src.Use(place, opened, tuple(arguments))
                if not stack:
                    return node

    def string_or_range(self, at: int) -> src.Node:
        low, flags = self.string()
        if not self.take_dots():
            return src.Text(at, low, flags)
        where = self.at
        if self.next() != '"':
            self.fail('a string expected after ".."')
        high, more = self.string()
        if flags or more:
            self.fail("the ends of a range take no flags", at)
        if len(low) != 1 or len(high) != 1:
            self.fail("the ends of a range are single characters", where if len(low) == 1 else at)
        if high < low:
            self.fail("the range ends before it begins", at)
        return src.Range(at, low, high)

    def take_dots(self) -> bool:
        found = re.compile(r"[ \t]*\.\.[ \t]*").match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def string(self) -> tuple[str, str]:
        at = self.at
        found = _STRING.match(self.text, at)
        if found is None:
            self.fail("the quote is never closed, or has flags other than i", at)
        if not found[1]:
            self.refuse(
                'the literal "" is empty', at, action="write nothing, or [x] for what may be left out"
            )
        self.at = found.end()
        text = self.unescaped(found[1], at).replace("\\\\", "\\")
        return text.replace('\\"', '"'), found[2]

    def unescaped(self, text: str, at: int) -> str:
        r"""Escapes that name characters; all others stay, so that regular expressions keep their own."""

        def character(found: re.Match[str]) -> str:
            digits = found[1] or found[2] or found[3]
            if digits:
                return self.code_point(digits, at)
            return _CONTROLS.get(found[4], found.group())

        return _ESCAPED.sub(character, text)

    def json(self, what: str) -> Any:
        self.space(nested=False)
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            self.fail(f"JSON expected after {what}: {error.msg}", error.pos)
        except RecursionError:
            self.fail(f"the JSON after {what} is nested too deeply")
        return value


def _renamed(body: src.Node) -> src.Node:
    """A terminal of the library with the names that it uses made the library's own. Those bodies are shallow."""
    if isinstance(body, src.Name):
        return src.Name(body.at, f"common.{body.name}")
    if isinstance(body, (src.Sequence, src.Choice)):
        return type(body)(body.at, tuple(_renamed(part) for part in body.parts))
    if isinstance(body, src.Loop):
        return src.Loop(body.at, _renamed(body.part), body.low, body.high)
    return body


@cache
def _library() -> src.Source:
    return _Lark(LIBRARY).run()


def read(text: str) -> tuple[src.Source, Reader]:
    """The definitions of a Lark text.

    Raises:
        InvalidConstraint: not Lark; line, column and a caret are in the message.
        UnsupportedConstraint: it asks for what is no language, or for files.
    """
    reader = _Lark(text)
    return reader.run(), reader
