"""Generate strings that match a regular expression; equal seeds give equal completions."""

import re

import constrained

generator = constrained.Generator(constrained.load(), constrained.regex("[A-Z]{2}-[0-9]{4}(/[a-z]+)?"))
for seed in (1, 1, 2):
    output = generator("A part number:", temperature=1.0, seed=seed, max_tokens=16)
    print(seed, output.text)
    assert re.fullmatch("[A-Z]{2}-[0-9]{4}(/[a-z]+)?", output.text)
