"""For tests of programs that use this library: `ScriptedModel` writes given completions over any vocabulary."""

from constrained.testing.models import ScriptedModel

__all__ = ["ScriptedModel"]
