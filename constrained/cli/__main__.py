"""`python -m constrained.cli`."""

from __future__ import annotations

from constrained.cli.app import main

main()
