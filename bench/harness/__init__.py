"""What all benches share: checks of settings, result folders, tables, pages, plots, and facts about the machine.

settings.py   ranges of settings; progress
results.py    the folder of a run: rows as JSON lines, and when and where the run took place
machine.py    processor, memory, load, cost of reading the clock
tables.py     a table, its numbers with their intervals, and how a terminal shows it
report.py     a page of Markdown out of tables; plots
repetition.py  texts that repeat themselves
worker_io.py  messages of a worker process

A bench writes its raw rows first; every figure and table is computed from those.
"""
