"""The command line: `constrained extract | decide | generate | check | demo`.

Results go to standard output, whole or not at all; progress, statistics and errors go to standard error.
Exit codes are the table in `constrained.cli.exit_status`.

    app.py             the commands, and their help
    options.py         the options of several commands
    inputs.py          the arguments of a command: a text, a constraint
    generation.py      one generation, with its progress and statistics
    decision.py        decisions about a text or the documents of files
    stream_display.py  the progress of a generation in a terminal
    checking.py        the report of `check` on a constraint
    token_check.py     the report of `check --token` on one token of a mask
    demo.py            the examples of `demo`
    serve.py           the server
    exit_status.py     how a command ends: output, exit codes, messages

`constrained --help` must be fast: torch is imported when a model is loaded, not before.
"""

from __future__ import annotations

from constrained.cli.app import main

__all__ = ["main"]
