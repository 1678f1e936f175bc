"""The command line: `constrained extract | generate | check | demo`.

Results go to standard output, whole or not at all; progress, statistics and errors go to standard error.
Exit codes are the table in `constrained.cli.exit_status`.

    app.py       the commands, and their help
    options.py   the options of several commands
    inputs.py    what a command is given: a text, a constraint
    produce.py   one generation, with its progress and statistics
    checking.py  what `check` finds out about a constraint
    demo.py      what `demo` shows
    outcome.py   how a command ends: output, exit codes, messages

`constrained --help` has to be there at once: torch is imported when a model is loaded, not before.
"""

from __future__ import annotations

from constrained.cli.app import main

__all__ = ["main"]
