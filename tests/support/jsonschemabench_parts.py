"""A model and an engine for the tests of JSONSchemaBench, which run in processes of their own."""

from __future__ import annotations

import os
import time
from typing import Any

from constrained import Vocabulary
from constrained.bench.masks.engines.ours import ConstrainedEngine
from constrained.testing import ScriptedModel


def scripted() -> ScriptedModel:
    """A model that wants to say nothing of use."""
    return ScriptedModel(Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], [256]), "nothing")


class Rough(ConstrainedEngine):
    """An engine with a fault for each schema that asks for one."""

    def compile(self, schema: Any, text: str) -> Any:
        fault = schema.get("title") if isinstance(schema, dict) else None
        if fault == "slow":
            time.sleep(60)
        if fault == "dies":
            os._exit(3)
        made = super().compile({"type": "integer"} if fault == "lax" else schema, text)
        if fault == "stuck":

            def wait(*arguments: Any) -> Any:
                time.sleep(60)

            return type(made)(**{name: getattr(made, name) for name in made.__slots__} | {"commit": wait})
        if fault == "raises":

            def fail(*arguments: Any) -> Any:
                raise RuntimeError("no such state")

            return type(made)(**{name: getattr(made, name) for name in made.__slots__} | {"commit": fail})
        return made
