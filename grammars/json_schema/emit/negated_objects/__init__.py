"""Objects that must violate at least one of several constraints: `not`, `oneOf`, `if` and `dependentSchemas`."""
