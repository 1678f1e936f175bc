"""Rewrites of grammars that keep their language: rules in, rules out. Knows no notation and no JSON."""
