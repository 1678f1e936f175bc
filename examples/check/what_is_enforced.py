"""Check a schema without a model: the status of each keyword, the allowed tokens, the shortest completion."""

import numpy as np

import constrained

SCHEMA = {
    "title": "An opinion",
    "type": "object",
    "properties": {"stars": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["stars"],
    "additionalProperties": False,
}

# A vocabulary of bytes; Vocabulary.from_tokenizer(tokenizer) reads a real one.
vocabulary = constrained.Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], eos_ids=[256])
automaton = constrained.compile(constrained.json_schema(SCHEMA), vocabulary)

for entry in automaton.report:
    print(entry.pointer, entry.status)

state = automaton.walk(automaton.start, list(b'{"stars": '))[-1]
mask = automaton.new_mask()
automaton.fill_mask(state, mask)
allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
print('after {"stars": comes one of', [vocabulary.tokens[token].decode() for token in allowed])
print(
    "every completion starts with",
    automaton.forced(automaton.start),
    "and has at least",
    automaton.shortest_completion(automaton.start),
    "tokens",
)
