"""Grammars of free text: substrings of a document, and prose around structured sections."""
