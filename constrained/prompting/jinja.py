"""Chat templates without transformers: for files that bring their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from constrained.extras import require_extra


def render_template(source: str, **variables: Any) -> str:
    """What a chat template writes; it sees what it sees in transformers.

    Templates come out of files of models, so they run in jinja2's sandbox, over plain data.

    Args:
        source: of the template.
        variables: JSON values.

    Raises:
        MissingExtra: jinja2 is not installed.
        jinja2.TemplateError: the template is malformed, refuses the messages, or reaches outside of its sandbox.
    """
    rendered: str = _compiled(source).render({name: _plain(value) for name, value in variables.items()})
    return rendered


@lru_cache(maxsize=32)
def _compiled(source: str) -> Any:
    with require_extra("llama-cpp"):
        from jinja2 import TemplateError, nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The block around what the assistant wrote, which marks its tokens in training, is its content."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(
                parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line
            )

    def refuse(reason: str) -> NoReturn:
        raise TemplateError(reason)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json  # jinja2's own escapes for HTML
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    return environment.from_string(source)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _plain(value: Any) -> Any:
    """A copy of a JSON value: a template gets no object of another class, whose methods it could call."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
