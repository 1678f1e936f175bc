"""Is a text a valid instance? Judged by `jsonschema`, which no engine uses.

Two verdicts. The first follows the schema's own ``$schema``, and formats count; one of `jsonschema`'s checkers is
mended, see `_formats`. The second repeats what the benchmark's scripts do: everything is read as draft 2020-12, and the
formats ipv4, ipv6 and uuid always fail, because their checkers return None there.
"""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from typing import Any

_RELATIVE_POINTER = re.compile(r"(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)")
_ALWAYS_FAIL = ("ipv4", "ipv6", "uuid")


def judge(schema: Any, text: str) -> tuple[bool, bool, str]:
    """Both verdicts, and the first problem.

    Args:
        schema: as JSON values.
        text: what was generated.
    """
    import jsonschema.validators as v

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return False, False, f"not JSON: {error}"
    own = v.validator_for(schema, default=v.Draft202012Validator)
    good, problem = _valid(own, schema, value, _formats(own))
    official, _ = _valid(v.Draft202012Validator, schema, value, _official())
    return good, official, problem


def _valid(kind: Any, schema: Any, value: Any, formats: Any) -> tuple[bool, str]:
    try:
        error = next(kind(schema, format_checker=formats).iter_errors(value), None)
    except (
        Exception
    ) as failure:  # of the judge: a reference that it cannot resolve, a pattern that it cannot read
        return False, f"the judge failed: {type(failure).__name__}: {failure}"[:300]
    if error is None:
        return True, ""
    return False, f"#/{'/'.join(map(str, error.absolute_path))}: {error.message}"[:300]


@cache
def _formats(kind: Any) -> Any:
    """A draft's checkers, but for relative JSON pointers: jsonschema 4.26 takes a digit after any 0 for a leading zero."""
    checker = copy.copy(kind.FORMAT_CHECKER)
    checker.checkers = dict(checker.checkers)
    if "relative-json-pointer" in checker.checkers:
        checker.checks("relative-json-pointer")(
            lambda value: not isinstance(value, str) or _RELATIVE_POINTER.fullmatch(value) is not None
        )
    return checker


@cache
def _official() -> Any:
    import jsonschema

    checker = jsonschema.FormatChecker()
    for name in _ALWAYS_FAIL:
        checker.checks(name)(lambda value: False)
    return checker
