"""Regular languages of the formats that RFCs define, built on first use."""
