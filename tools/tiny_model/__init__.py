"""How the bundled model was made: its documents, its network and its training. Not part of the wheel."""
