"""Languages of JSON texts: strings, numbers, literals, patterns, formats, and the whitespace between tokens."""
