"""Runs the command line with a scripted model in place of a real one, in a process of its own.

python cli_driver.py SCRIPT SECONDS_A_TOKEN ARGUMENTS...
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from constrained import Vocabulary
from constrained.testing import ScriptedModel

BYTES = Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], [256])
"""A token a byte, and an end."""


class SlowModel(ScriptedModel):
    """Says on standard error when it thinks, and takes its time."""

    pause = 0.0

    def forward(self, *inputs: Any) -> Any:
        self._think()
        return super().forward(*inputs)

    def forward_trees(self, *inputs: Any) -> Any:
        self._think()
        return super().forward_trees(*inputs)

    def _think(self) -> None:
        if self.pause:
            sys.stderr.write("thinking\n")  # in one piece, also where a signal comes in between
            time.sleep(self.pause)


def replace_models(script: Any, pause: float = 0.0, put: Callable[[Any, str, Any], None] = setattr) -> None:
    """From now on every model of the command line says this."""
    from constrained.cli import demo, generation

    def load_model(name: str | None, device: str | None, *, watched: bool) -> SlowModel:
        model = SlowModel(BYTES, script)
        model.pause = pause
        return model

    for module in (generation, demo):
        put(module, "load_model", load_model)


if __name__ == "__main__":
    from constrained.cli import main

    replace_models(os.fsencode(sys.argv[1]), float(sys.argv[2]))
    main(sys.argv[3:])
