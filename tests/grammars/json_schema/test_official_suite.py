"""The official suite: nothing invalid passes, nothing valid is lost, and what agrees today agrees tomorrow.

`python tests/grammars/json_schema/official_suite.py --update` writes the ratchet after a change that makes more cases agree.
"""

from __future__ import annotations

import json

import pytest

from tests.grammars.json_schema.official_suite import (
    AGREES,
    LEFT_OUT,
    NARROWER,
    RATCHET,
    REFUSED,
    WRONG,
    Case,
    archive,
    judge,
)

ON_PURPOSE = {
    "optional/content": "contentEncoding and contentMediaType are annotations",
    "optional/dependencies-compatibility": "dependencies are unknown to the drafts that replaced them",
    "optional/float-overflow": "a multiple of 0.5 is written without an exponent, and the instance as 1e308",
    "optional/format/ecmascript-regex": "of the format regex, what ECMA-262 and Python read alike is written",
    "optional/format/hostname": "labels in Punycode are not written",
    "optional/format/idn-hostname": "long labels, and separators but the full stop, are not written",
}
"""Files with cases that do not agree, and why. No other file may have one."""

pytestmark = pytest.mark.skipif(archive() is None, reason="CONSTRAINED_DATA is not set")


@pytest.fixture(scope="module")
def verdicts() -> tuple[dict[str, dict[str, str]], list[tuple[Case, str, str]]]:
    path = archive()
    assert path is not None
    return judge(path)


def test_nothing_is_wrong_but_what_is_known(verdicts):
    _, others = verdicts
    wrong = [
        f"draft {case.draft}, {case.file}: {case.description}: {reason}"
        for case, letter, reason in others
        if letter in (NARROWER, WRONG) and case.file not in ON_PURPOSE
    ]
    assert not wrong, "\n".join(wrong)


def test_no_case_is_lost(verdicts):
    """A letter for each case: once it agrees it must; what is wrong on purpose is counted, and must not grow."""
    letters, _ = verdicts
    kept = json.loads(RATCHET.read_text(encoding="utf-8"))
    assert letters.keys() == kept.keys()
    order = {WRONG: 0, NARROWER: 1, REFUSED: 2, AGREES: 3}
    worse = []
    for draft, files in kept.items():
        assert letters[draft].keys() == files.keys()
        for file, before in files.items():
            now = letters[draft][file]
            assert len(now) == len(before), f"draft {draft}, {file}: another version of the suite"
            worse += [
                f"draft {draft}, {file}, case {i}: {old} is {new} now"
                for i, (old, new) in enumerate(zip(before, now, strict=True))
                if order[new] < order[old]
            ]
    assert not worse, "\n".join(worse)


def test_what_is_left_out_is_there(verdicts):
    letters, _ = verdicts
    assert not any(file in LEFT_OUT for files in letters.values() for file in files)
    assert all(any(f"optional/{file}/" in name for name in letters["2020-12"]) for file in LEFT_OUT)
