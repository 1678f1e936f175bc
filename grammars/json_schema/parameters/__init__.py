"""Objects as the parameters of a tool call, in the markup of model families: strings raw, other values as JSON."""
