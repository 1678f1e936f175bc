"""Token masks, engine beside engine: recorded JSON is replayed token by token against the schema it was written for.

    workload.py   what is replayed: schemas and token ids, prepared once for all engines
    engines/      one adapter an engine; the table `ENGINES`
    replay.py     what is timed
    worker.py     the process in which one engine runs
    supervise.py  starts workers, holds them to their limits, restarts them
    rows.py       what one schema gave with one engine
    summary.py    counts and percentiles out of rows
    report.py     tables, Markdown, plot
    agreement.py  where the masks of two engines differ
    settings.py   what is measured
    run.py        all of it

Engines run one after another, each in a process of its own, over the same token ids.
"""
