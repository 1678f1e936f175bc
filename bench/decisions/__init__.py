"""How often is a decision right, and do its probabilities mean what they say: `decide` beside other ways to ask the same.

    items.py    public rows as closed questions, each with the answer that is right
    ways.py     an item answered in one of five ways, by one model
    rows.py     an answer as a row; accuracy, log loss and calibration of some
    settings.py  what is measured
    run.py      all ways on all items, in turn
    report.py   tables and page

All ways but the letters are given the same prompt, token for token: the one that this library writes. Letters need the options in the prompt,
each behind its letter. Must not know: how a way works inside.
"""
