"""JSONSchemaBench: does a model under an engine give JSON that satisfies the schema, and how fast?

    data.py        schemas out of a checkout, a file, or a data set by name
    rows.py        one schema with one engine: a row with a status
    generating.py  a text under an engine's masks, timed
    judging.py     is the text valid, by an implementation that no engine uses
    worker.py      the process of one engine and its model
    vllm_worker.py the process of a vLLM engine with one backend of structured outputs
    vllm_server.py the same as an HTTP server, and the client that asks it
    local.py       such processes on this machine, held to their limits
    cluster.py     such processes on a Ray cluster
    settings.py    what is measured
    run.py         engines one after another, rows written, and going on where a run was interrupted
    report.py      the paper's metrics per split, as tables, Markdown and HTML

The metrics are those of Geng et al., "JSONSchemaBench: A Rigorous Benchmark of Structured Outputs for Language
Models", section 4. Must not know: how an engine works inside.
"""
