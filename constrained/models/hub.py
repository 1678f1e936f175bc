"""Whether the Hub can be reached: without it, names are looked up among the files that are here, at once.

Its client tries for 24 s before it gives up, again for each file, also where the file is in its cache.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_SECONDS = 10.0
"""For an answer of the Hub; its client has as many."""

_DECIDED = ("local_files_only", "force_download", "proxies")
"""Options with which a caller says how files are fetched."""


def fetch_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with which `from_pretrained` finds the files of a name: those given, and ``local_files_only`` where the Hub is out of reach.

    Args:
        name: on the Hub, or a folder, for which nobody is asked.
        options: of `from_pretrained`.
    """
    given = dict(options)
    is_path = os.path.isdir(name) or name.startswith(("/", ".", "~"))
    if is_path or any(option in given for option in _DECIDED) or _is_reachable():
        return given
    return {**given, "local_files_only": True}


def _is_reachable() -> bool:
    """Whether the Hub, or what ``HF_ENDPOINT`` names, answers anything to one request."""
    import huggingface_hub
    from huggingface_hub.constants import ENDPOINT

    try:
        huggingface_hub.get_session().head(ENDPOINT, timeout=_SECONDS)
    except Exception:  # those of its HTTP library, which differs between its versions
        return False
    return True
