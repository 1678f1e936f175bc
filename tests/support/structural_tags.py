"""Texts of structural tags by random walks, and texts near them by mutation."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from constrained import Vocabulary, compile, structural_tag

BYTES = Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], [256])
_JSON = ["{", "}", "[", "]", ":", ",", '"', ": ", ", ", "true", "false", "null", "0", "1", "-", ".5", "e3"]
_TEXT = [" ", "\n", "  ", "\t", "\\n", '\\"', "a", "Brno", "é", "日", "\\u00e9"]
_MARKUP = {
    "qwen_xml": ["<parameter=", ">", "</parameter>"],
    "minimax_xml": ['<parameter name="', '">', "</parameter>"],
    "minimax_m3_xml": ["]<]minimax[>[<", "]<]minimax[>[</", ">", "item"],
    "deepseek_xml": [
        '<｜DSML｜parameter name="',
        '" string="true">',
        '" string="false">',
        "</｜DSML｜parameter>",
    ],
    "deepseek_v4_1_xml": ['<｜DSML｜ parameter name="', '" string="', "true", '">', "</｜DSML｜ parameter>"],
    "glm_xml": ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    "cohere_xml": [
        '<cofl:value name="',
        "<cofl:value",
        ' type="',
        *("raw", "json", "dict", "list", '">'),
        "</cofl:value>",
    ],
    "kimi_k3_xml": [
        '<|open|>argument key="',
        '" type="',
        *("string", "number", "object", "array"),
        '"<|sep|>',
        "<|close|>argument<|sep|>",
    ],
}


def of(form: Any) -> dict[str, Any]:
    """The structural tag of a format."""
    return {"type": "structural_tag", "format": form}


def fragments(definition: dict[str, Any]) -> list[str]:
    """Texts that a definition mentions, markup of its styles, and pieces of JSON."""
    found = set(_JSON + _TEXT)
    stack: list[Any] = [definition["format"]]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            found.update(value.get("properties", {}))
            found.update(json.dumps(name) for name in value.get("properties", {}))
            found.update(_MARKUP.get(value.get("style", "json"), []))
            stack += [part for key, part in value.items() if key not in ("type", "style")]
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, str):
            found.add(value)
    return sorted(text for text in found if 0 < len(text) < 80)


class RandomTexts:
    """Random texts of a definition: walks over a vocabulary of bytes and of the fragments."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.fragments = fragments(definition)
        listed = [text.encode() for text in self.fragments] + [bytes([i]) for i in range(256)]
        self.tokens = list(dict.fromkeys(listed))
        self.vocabulary = Vocabulary.from_bytes([*self.tokens, b""], [len(self.tokens)])
        self.automaton = compile(structural_tag(definition), self.vocabulary)

    def draw(self, chance: random.Random, limit: int = 60) -> str | None:
        """A text of at most `limit` tokens; None where its bytes are cut inside a character."""
        automaton, end = self.automaton, len(self.tokens)
        state, written, mask = automaton.start, list[bytes](), automaton.new_mask()
        for used in range(limit):
            automaton.fill_mask_within(state, mask, limit - used)
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: end + 1]
            allowed = [int(token) for token in np.flatnonzero(bits)]
            assert allowed, (written, "no token is allowed")
            if end in allowed and (len(allowed) == 1 or chance.random() < 0.15):
                break
            allowed = [token for token in allowed if token != end]
            long = [token for token in allowed if len(self.tokens[token]) > 2]
            token = chance.choice(long if long and chance.random() < 0.6 else allowed)
            state = automaton.next(state, token)
            written.append(self.tokens[token])
        try:
            return b"".join(written).decode()
        except UnicodeDecodeError:
            return None

    def mutated(self, chance: random.Random, text: str) -> str:
        """A text with one to three changes: parts removed, repeated, moved or replaced."""
        letters = list(text)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            start = chance.randrange(len(letters) + 1)
            stop = min(len(letters), start + chance.choice((1, 1, 2, 5, 12)))
            part = letters[start:stop]
            match chance.randrange(5):
                case 0:
                    del letters[start:stop]
                case 1:
                    letters[start:start] = chance.choice(self.fragments)
                case 2:
                    letters[start:stop] = chance.choice(self.fragments)
                case 3:
                    letters[start:stop] = [chance.choice(' \n"<>{}[],:0a/|\\')]
                case _:
                    place = chance.randrange(len(letters) + 1)
                    letters[place:place] = part
        return "".join(letters)
