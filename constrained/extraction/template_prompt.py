"""``prompt="template"``: the prompt in the form that the chat template of an extraction model has for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constrained.constraint import Constraint
from constrained.errors import InvalidArgument, UnsupportedConstraint
from constrained.extraction.examples import PromptExample
from constrained.extraction.prompt import check_text, shown_text
from constrained.models import LanguageModel, Prompt
from constrained.prompting.chat_template import encode_chat
from constrained.prompting.extraction_template import (
    SYSTEM_REQUEST,
    TemplateForm,
    json_template,
    schema_outline,
    template_form,
)


def find_form(model: LanguageModel, constraint: Constraint) -> TemplateForm:
    """The form that the chat template of a model has for a constraint.

    Raises:
        InvalidArgument: it has none.
        UnsupportedConstraint: it has one for objects only.
    """
    form = template_form(getattr(model, "tokenizer", None))
    if form is None:
        raise InvalidArgument(
            'prompt="template" is for models whose chat template takes a type (NuExtract 2, LFM2-Extract): that of this one has no '
            "place for it",
            action="leave prompt out, which shows the type in the message, or pass a text with {type} and {text}",
        )
    schema = constraint.local_schema
    if not constraint.is_json or not json_template(schema).startswith("{"):
        raise UnsupportedConstraint(
            f'prompt="template" takes the members of an object, not {constraint.render()}',
            action="put it into an object, or leave prompt out",
        )
    return form


def template_prompt(
    form: TemplateForm,
    model: LanguageModel,
    text: str,
    constraint: Constraint,
    examples: Sequence[PromptExample],
) -> Prompt:
    """The prompt for a text: messages, or token ids where the chat template reads more than messages.

    Raises:
        PromptError: the text is empty, or no text.
    """
    check_text(text)
    schema = constraint.local_schema
    asked = [{"role": "user", "content": shown_text(text, constraint)}]
    shown = [(shown_text(one.text, constraint), one.answer) for one in examples]
    if form == "system":
        system = {"role": "system", "content": f"{SYSTEM_REQUEST}\n{schema_outline(schema)}"}
        turns = [
            {"role": role, "content": content}
            for pair in shown
            for role, content in zip(("user", "assistant"), pair, strict=True)
        ]
        return [system, *turns, *asked]
    tokenizer: Any = model.tokenizer  # type: ignore[attr-defined]
    given = [{"input": question, "output": answer} for question, answer in shown]
    return encode_chat(
        asked, tokenizer, context=model.context, template=json_template(schema), examples=given or None
    )
