"""Headings say which list a sentence is about."""

from __future__ import annotations

import pytest

from constrained.extraction.chunks import sentences
from constrained.extraction.sections import sections

LISTS = {"tasks": True, "risks": True, "present": False, "lineItems": True}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Project Heron. Tasks: Lena cooks. Omar eats.", [("Project Heron.", None), ("Lena cooks.", "tasks"), ("Omar eats.", "tasks")]),
        ("Tasks: cook. Risks: fire.", [("cook.", "tasks"), ("fire.", "risks")]),
        ("## Open tasks\n- cook\n\n**Risks:**\n- fire", [("- cook", "tasks"), ("- fire", "risks")]),
        ("Present: Rosa, Emil. Rosa cooks.", [("Rosa, Emil.", "present"), ("Rosa cooks.", None)]),
        ("Present\nRosa\nEmil", [("Rosa", "present"), ("Emil", "present")]),
        ("Items\n2 lamps\nTotal: 4", [("2 lamps", "lineItems"), ("Total: 4", "lineItems")]),
        ("The tasks are hard: cook.\nA task", [("The tasks are hard: cook.", None)]),
        ("Mia: designer\nTom: cook", [("Mia: designer", None), ("Tom: cook", None)]),
        ("", []),
    ],
)  # fmt: skip
def test_a_heading_that_names_a_list_is_of_the_sentences_behind_it(
    text: str, found: list[tuple[str, str | None]]
) -> None:
    """In ``Present: Rosa, Emil.`` it is of one sentence: a list of strings has its items there."""
    parts = sections(text, sentences(text), LISTS)
    assert [(text[start:end].strip(), name) for (start, end), name in parts] == found
