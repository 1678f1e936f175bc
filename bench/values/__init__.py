"""How often are the values right that a real model writes, under this library and under other engines' masks?

    types.py, *.jsonl  the project's own documents: five types, short texts and long ones, the values that are right
    items.py           documents and public rows as items; a seeded draw
    engines.py         an item answered by this library's public calls, or by `generate` under an engine's masks
    reading.py         the value in an engine's text; texts that repeat themselves
    judging.py         which fields of a value are right
    rows.py            an answer as a row
    settings.py        what is measured
    run.py             all engines on all items, in turn
    report.py          tables, plot, page, and the answers side by side

Every engine is given the same prompt, token for token: the one that this library writes. Masks come from the JSON
Schema that this library makes of the type, with the white space that the engine has by default. Options to choose from
are a regular expression. Calls of tools are given to each engine in a notation of its own, in the form that the prompt
asks for, several in a row: a structural tag (XGrammar), a Lark grammar with JSON Schemas in it (llguidance), a regular
expression (Outlines). Where the model's format of calls is not JSON, it is an array of ``{"name", "arguments"}``. Must not know: how an engine works inside.
"""
