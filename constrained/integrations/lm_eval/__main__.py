"""The command line of the harness, which knows the model ``constrained`` here."""

from __future__ import annotations

from lm_eval.__main__ import cli_evaluate

import constrained.integrations.lm_eval  # noqa: F401 (registers the model)

if __name__ == "__main__":
    cli_evaluate()
