"""`bench replay`: tokens per forward pass with draft tokens for recorded JSON.

    document.py   a document that a recorded value could have been extracted from
    tools.py      rows that call a tool, and earlier calls of it
    baselines.py  what others do: prompt lookup
    places.py     the class of the token at which a pass ended
    measure.py    one text: passes, nodes, time
    settings.py   what is measured
    run.py        a sample under every scenario and every configuration
    report.py     tables, plot

What a model would say is given, so the number of passes is exact: it is the same for every model, temperature and seed
under which these texts come out.
"""
