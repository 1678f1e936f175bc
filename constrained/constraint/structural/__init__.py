"""Structural tags, in the form in which XGrammar, vLLM and SGLang pass them.

formats.py     the formats as data
reader.py      from a definition to formats; errors name the JSON Pointer
rules.py       from formats to a grammar
constraint.py  the constraint, and the value of a text
"""

from __future__ import annotations

from constrained.constraint.structural.constraint import structural_tag

__all__ = ["structural_tag"]
