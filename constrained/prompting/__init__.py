"""What the model reads before it writes: schemas as text, chat templates, token ids of a prompt."""
