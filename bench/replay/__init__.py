"""`bench replay`: tokens per forward pass with draft tokens for recorded JSON.

    prompts.py    documents that a value could have been extracted from; earlier calls of a tool
    measure.py    one text: passes, nodes, time; prompt lookup
    settings.py   what is measured
    run.py        a sample under every scenario and every configuration
    report.py     tables, plot

What a model would say is given, so the number of passes is exact: it is the same for every model, temperature and seed
under which these texts come out.
"""
