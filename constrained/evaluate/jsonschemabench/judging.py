"""Is a text a valid instance? Judged by `jsonschema`, which no engine uses.

Two verdicts. The first follows the schema's own ``$schema``, and formats count. The second repeats what the benchmark's
scripts do: everything is read as draft 2020-12, and the formats ipv4, ipv6 and uuid always fail, because their
checkers return None there.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

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
    good, problem = _valid(own, schema, value, own.FORMAT_CHECKER)
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
def _official() -> Any:
    import jsonschema

    checker = jsonschema.FormatChecker()
    for name in _ALWAYS_FAIL:
        checker.checks(name)(lambda value: False)
    return checker
