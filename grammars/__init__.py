"""What may be said: sources of constraints to one grammar (`ir`). Knows no tokenizer and no model."""
