"""Queries that run against a given database: a grammar checks the syntax, SQLite checks tables and columns."""

import sqlite3

import constrained

database = sqlite3.connect(":memory:")
database.executescript(
    "CREATE TABLE person (id INTEGER, name TEXT, born INTEGER); CREATE TABLE city (id INTEGER, name TEXT, mayor INTEGER);"
)


def compiles(query: str) -> bool:
    """Whether SQLite can plan it; nothing is executed."""
    try:
        database.execute(f"EXPLAIN {query}")
    except sqlite3.Error:
        return False
    return True


select = constrained.gbnf(r"""
root      ::= "SELECT " name (", " name)? " FROM " table (" WHERE " condition)?
condition ::= name " " ("=" | "<" | ">") " " ([0-9]{1,4} | "'" [a-z]{1,8} "'")
table     ::= "person" | "city"
name      ::= "id" | "name" | "born" | "mayor"
""")
generator = constrained.Generator(constrained.load(), select & constrained.predicate(complete_ok=compiles))
for seed in range(5):
    output = generator("All people born before 1900, in SQL:", temperature=1.0, seed=seed, max_tokens=60)
    print(output.text, database.execute(output.text).fetchall(), f"({output.stats.attempts} attempts)")
