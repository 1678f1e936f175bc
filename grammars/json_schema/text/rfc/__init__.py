"""Languages of characters that RFCs define, each built when it is first asked for; `formats` gives them their names."""
