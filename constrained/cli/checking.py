"""`constrained check`: whether a constraint can be enforced, how each keyword is treated, and the automaton's size."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from constrained.cli.exit_status import CommandFailed, emit, exit_code_for
from constrained.cli.generation import silence_libraries
from constrained.cli.token_check import examine_token
from constrained.errors import ConstrainedError, ModelError
from constrained.extras import require_extra
from constrained.grammars import ir
from constrained.grammars.errors import MISSING
from constrained.grammars.visit import postorder

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary

CheckReport = dict[str, Any]


def check(
    make: Callable[[], Constraint],
    tokenizer: str | None,
    *,
    token: str | None,
    after: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compiles a constraint and writes a report to standard output.

    Args:
        make: makes the constraint.
        tokenizer: name or folder of the tokenizer; None for the bundled model's.
        token: the report is about this token, see `examine_token`; None for one about the constraint.
        after: the text before the token.
        as_json: write the report as JSON, also if the constraint cannot be enforced.
        quiet: write nothing.

    Raises:
        CommandFailed: the constraint cannot be enforced, and the JSON report contains the reason.
        ConstrainedError: the constraint cannot be enforced, without `as_json`.
    """
    silence_libraries()
    try:
        if token is None:
            report = examine(make(), tokenizer)
        else:
            report = examine_token(make(), load_vocabulary(tokenizer), after, token)
    except ConstrainedError as error:
        if not as_json:
            raise
        emit(_dumped(error_report(error)))
        raise CommandFailed(exit_code_for(error)) from None
    if not quiet:
        render = _dumped if as_json else render_report if token is None else render_token_report
        emit(render(report))


def examine(constraint: Constraint, tokenizer: str | None = None) -> CheckReport:
    """Compiles a constraint and returns its report as JSON values; times in milliseconds.

    Raises:
        ConstrainedError: the constraint cannot be enforced, or the tokenizer cannot be used.
    """
    for front_end in ("constrained.grammars.json_schema", "constrained.grammars.regex"):
        import_module(front_end)  # so that its import is not timed
    start = time.perf_counter()
    grammar = constraint.grammar
    grammar_seconds = time.perf_counter() - start
    nodes = {node for body in grammar.rules.values() for node in postorder(body)}
    keywords = [
        {"pointer": entry.pointer, "keyword": entry.keyword, "status": entry.status, "note": entry.note}
        for entry in constraint.report
    ]
    vocabulary = load_vocabulary(tokenizer)
    _ = vocabulary.core  # built once for all constraints, and not timed
    from constrained.automaton import compile

    start = time.perf_counter()
    automaton = compile(constraint, vocabulary)
    automaton_seconds = time.perf_counter() - start
    start = time.perf_counter()
    automaton.fill_mask(automaton.start, automaton.new_mask())
    mask_seconds = time.perf_counter() - start
    return {
        "supported": True,
        "constraint": constraint.render(),
        "keywords": keywords,
        **_terminal_report(constraint),
        "grammar": {
            "rules": len(grammar.rules),
            "terminals": sum(isinstance(node, ir.Terminal) for node in nodes),
            "nodes": len(nodes),
        },
        "automaton": {
            "tokens": vocabulary.size,
            **{name: int(size) for name, size in automaton.memory.items()},
            "shortest_completion": automaton.shortest_completion(automaton.start),
            "counts_exactly": automaton.counts_exactly(automaton.start),
        },
        "milliseconds": {
            "grammar": round(1000 * grammar_seconds, 3),
            "automaton": round(1000 * automaton_seconds, 3),
            "first_mask": round(1000 * mask_seconds, 3),
        },
    }


def _terminal_report(constraint: Constraint) -> CheckReport:
    """Terminals of a Lark grammar that match the same text; nothing for other constraints."""
    from constrained.constraint.lark_grammar import terminal_overlaps

    overlaps = terminal_overlaps(constraint)
    if overlaps is None:
        return {}
    return {
        "overlapping_terminals": [
            {"terminals": [pair.first, pair.second], "example": pair.example} for pair in overlaps.overlaps
        ],
        "not_compared": [{"terminal": name, "reason": reason} for name, reason in overlaps.not_compared],
    }


def error_report(error: ConstrainedError) -> CheckReport:
    """The error of a constraint that cannot be enforced, as JSON values."""
    problems = [
        {
            "place": problem.place,
            "reason": problem.reason,
            **({} if problem.value is MISSING else {"value": problem.value}),
            **({} if problem.keyword is None else {"keyword": problem.keyword}),
        }
        for problem in error.problems
    ]
    return {
        "supported": False,
        "error": type(error).__name__,
        "summary": error.summary,
        "problems": problems,
        "action": error.action,
    }


def render_report(report: CheckReport) -> str:
    """The report as text for the terminal."""
    keywords, grammar, automaton, milliseconds = (
        report[part] for part in ("keywords", "grammar", "automaton", "milliseconds")
    )
    lines = [f"supported: {report['constraint']}"]
    for entry in keywords:
        note = f"  ({entry['note']})" if entry["note"] else ""
        lines.append(f"  {entry['status']:<10}  {entry['pointer']}{note}")
    if keywords:
        counts = Counter(entry["status"] for entry in keywords)
        tally = [f"{counts['enforced']} enforced", f"{counts['annotation']} annotations"]
        tally += [f"{counts[status]} {status}" for status in ("unknown", "unchecked") if counts[status]]
        lines.append(f"keywords: {', '.join(tally)}")
    for entry in report.get("overlapping_terminals", ()):
        first, second = entry["terminals"]
        lines.append(
            f"warning: {first} and {second} both match {entry['example']!r}"
            " -> give one of them a priority, or let them match different texts"
        )
    for entry in report.get("not_compared", ()):
        lines.append(f"not compared: {entry['terminal']}: {entry['reason']}")
    lines += [
        f"grammar: {grammar['rules']} rules, {grammar['terminals']} terminals, "
        f"{grammar['nodes']} nodes, built in {milliseconds['grammar']:.1f} ms",
        f"automaton over {automaton['tokens']} tokens: {automaton['states']} states so far, "
        f"{automaton['bytes'] / 1024:.0f} KiB, compiled in {milliseconds['automaton']:.1f} ms, "
        f"first mask in {milliseconds['first_mask']:.1f} ms",
        f"shortest completion: {'' if automaton['counts_exactly'] else 'at most '}"
        f"{automaton['shortest_completion']} tokens",
    ]
    return "\n".join(lines)


def render_token_report(report: CheckReport) -> str:
    """The report about a token as text for the terminal."""
    verdict = "allowed" if report["allowed"] else "refused"
    if report["allowed"] != report["transition"]:
        verdict += ", but a transition says otherwise: the mask is wrong"
    token = f"token {report['token']}, {report['bytes']}: {verdict}"
    return f"{token}\n{report['reason']}\nbyte by byte: {report['judge']}"


def load_vocabulary(tokenizer: str | None) -> Vocabulary:
    """The vocabulary of a tokenizer by name or folder, or of the bundled model; no model is loaded.

    Raises:
        ModelError: it cannot be loaded.
        VocabularyError: its tokens cannot be used.
    """
    from constrained.vocabulary import Vocabulary

    if tokenizer is not None:
        return Vocabulary.from_tokenizer(_pretrained(tokenizer))
    # The file itself, whose tokens are in GPT-2's alphabet: transformers takes seconds to import, and is an extra.
    from constrained.models.tiny import WEIGHTS
    from constrained.vocabulary.decoders import from_byte_level

    if not (WEIGHTS / "tokenizer.json").is_file():
        raise ModelError("the bundled model is missing from this installation", action="name a --tokenizer")
    config, saved = (json.loads((WEIGHTS / name).read_bytes()) for name in ("config.json", "tokenizer.json"))
    tokens = [b""] * config["vocab_size"]
    for content, token in saved["model"]["vocab"].items():
        tokens[token] = from_byte_level(content)
    special = {added["content"]: added["id"] for added in saved["added_tokens"] if added["special"]}
    for added in saved["added_tokens"]:
        tokens[added["id"]] = b"" if added["special"] else added["content"].encode()
    return Vocabulary(tokens, [config["eos_token_id"]], special=special)


def _pretrained(name: str) -> Any:
    with require_extra("transformers"):
        from transformers import AutoTokenizer

    from constrained.models.hub import fetch_options

    try:
        return AutoTokenizer.from_pretrained(name, **fetch_options(name, {}))
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"the tokenizer {name!r} cannot be loaded: {reason}",
            action="check the name, the folder and the network",
        ) from None


def _dumped(report: CheckReport) -> str:
    return json.dumps(report, ensure_ascii=False, indent=2, default=repr)
