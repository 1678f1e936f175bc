"""Tokens per second of one model on the same prompts: by `generate` of transformers, by other engines, by this library.

    shapes.py           models of random weights in the shape of real ones
    recorded.py         makes a model's output a recorded text
    forward_counter.py  counts a model's forward passes, and their time
    cases.py            prompts, schemas, recorded texts
    ways.py             ways of decoding
    settings.py         what is measured
    run.py              all ways on all cases, in turn
    report.py           tables, for the terminal and as Markdown

A forward pass takes as long with random weights as with trained ones. The logits get one peak after each token, at the
recorded one, so every decoding method computes masks and draft tokens as for a model with that output.
"""
