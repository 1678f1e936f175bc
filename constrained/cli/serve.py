"""`constrained serve`: the command that starts the server."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.exit_status import BadInput
from constrained.cli.options import Device, SpeculationOption, resolve_speculation_option, with_option_groups
from constrained.server.settings import ServerSettings


@with_option_groups
def serve(
    *,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL...",
            help="Name or folder of a causal model, several for several; NAME is what clients call it "
            "[default: the bundled one].",
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free port.")
    ] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            "--api-key",
            envvar="CONSTRAINED_API_KEY",
            metavar="KEY",
            help="A key that clients may send, several times for several keys; other users of the machine can read it "
            "[default: those in $CONSTRAINED_API_KEY, between spaces, or none].",
            show_envvar=False,
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option("--api-key-file", metavar="FILE", help="A file of such keys, one in a line."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", help="Name of a single model for clients [default: MODEL, or constrained-tiny]."
        ),
    ] = None,
    lora: Annotated[
        list[str] | None,
        typer.Option(
            "--lora",
            metavar="NAME=ADAPTER",
            help="A LoRA adapter of the single MODEL, by a folder or a name on the Hub, served as a model called NAME; several times for several.",
        ),
    ] = None,
    device: Device = None,
    isolate: Annotated[
        bool,
        typer.Option(
            "--isolate",
            help="One forward pass for each sequence: results do not depend on the batch, to the last bit.",
        ),
    ] = False,
    tool_format: Annotated[
        str | None,
        typer.Option(
            "--tool-format",
            metavar="NAME",
            help="How the model writes tool calls: hermes, llama3, mistral, mistral-args, harmony, granite3, gemma4, function-gemma, lfm2, olmo3 or pythonic [default: by its template].",
        ),
    ] = None,
    speculation: SpeculationOption = "off",
    settings: ServerSettings,
) -> None:
    """Serve models to OpenAI clients: chat, completions, tools, structured outputs.

    Runs until SIGTERM or Ctrl-C and then finishes the running requests; a second Ctrl-C ends it at once.
    """
    named = _named(models or [], name)
    adapters = _adapters(lora or [], named)
    # The libraries alone take seconds to import, and a large model takes minutes.
    print(f"loading {', '.join([*named, *adapters])}", file=sys.stderr, flush=True)
    from constrained.chat.tool_format_probe import FORMATS
    from constrained.server import serve as run

    if tool_format is not None and tool_format not in FORMATS:
        raise BadInput(f"the tool format {tool_format!r} is not known", action=f"use {', '.join(FORMATS)}")
    settings = replace(
        settings,
        api_key=_keys(api_key, api_key_file),
        speculation=resolve_speculation_option(speculation),
    )
    from constrained.cli.generation import silence_libraries

    sources = set(named.values())
    silence_libraries(bars=sources != {None})
    from constrained.models import load
    from constrained.models.loading import with_adapter

    by_source = {
        one: load(one, device=device, isolate=isolate or None) for one in dict.fromkeys(named.values())
    }
    loaded = {one: by_source[source] for one, source in named.items()}
    loaded |= {one: with_adapter(next(iter(loaded.values())), source) for one, source in adapters.items()}
    if sources == {None}:
        import torch

        torch.set_num_threads(1)  # the model is so small that threads wait longer than they compute

    def on_ready(url: str) -> None:
        print(f"serving {', '.join(loaded)} at {url}/v1", file=sys.stderr, flush=True)

    format = None if tool_format is None else FORMATS[tool_format]
    run(loaded, settings, host=host, port=port, format=format, on_ready=on_ready)


def _named(models: list[str], name: str | None) -> dict[str, str | None]:
    """The models by the names that clients give them; None: the bundled one.

    Raises:
        BadInput: two of them have one name, or `--name` is given for several.
    """
    if name is not None and len(models) > 1:
        raise BadInput("--name is for a single model", action="write NAME=MODEL for each of them")
    named: dict[str, str | None] = {}
    for given in models or [""]:
        own, equals, source = given.partition("=")
        if not equals or "/" in own or Path(given).exists():  # a path may have an equals sign
            own, source = "", given
        bundled = source in ("", "bundled") and not Path(source or "bundled").is_dir()
        default = (
            "constrained-tiny"
            if bundled
            else Path(source).resolve().name
            if Path(source).is_dir()
            else source
        )
        shown = name or own or default
        if shown in named:
            raise BadInput(f"two models have the name {shown!r}", action="write NAME=MODEL for one of them")
        named[shown] = None if bundled else source
    return named


def _adapters(given: list[str], models: dict[str, str | None]) -> dict[str, str]:
    """Folders or names of adapters by the names that clients give them.

    Raises:
        BadInput: one has no name, or another's; or there are several models.
    """
    if given and len(models) > 1:
        raise BadInput("--lora is for a single model", action="serve each model by a server of its own")
    adapters: dict[str, str] = {}
    for one in given:
        name, equals, source = one.partition("=")
        if not (name and equals and source):
            raise BadInput(f"--lora {one!r} has no name or no adapter", action="write --lora NAME=ADAPTER")
        if name in models or name in adapters:
            raise BadInput(f"two models have the name {name!r}", action="give the adapter another name")
        adapters[name] = source
    return adapters


def _keys(given: list[str] | None, file: Path | None) -> tuple[str, ...] | None:
    """The keys of the command line and of a file; None: no authentication."""
    keys = [*(given or ())]
    if file is not None:
        try:
            keys += file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read the keys in {file}: {error}") from None
        if not keys:
            raise BadInput(f"there is no key in {file}", action="write one in each line")
    return tuple(keys) or None
