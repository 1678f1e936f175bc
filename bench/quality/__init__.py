"""Does a constraint cost accuracy? The quality axis of JSONSchemaBench: puzzles with one right answer, as JSON.

    tasks.py   puzzles by a seed, and the prompt with examples before it
    settings.py  what is measured
    run.py     all engines answer a puzzle before the next one comes; rows
    report.py  shares of right answers, and paired differences

After Geng et al., "JSONSchemaBench: A Rigorous Benchmark of Structured Outputs for Language Models", section 5: the tasks
are theirs, the puzzles are not.
"""
