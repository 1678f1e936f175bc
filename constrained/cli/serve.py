"""`constrained serve`: the command that starts the server."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.exit_status import BadInput
from constrained.cli.options import SPECULATION, resolve_speculation_option, with_option_groups
from constrained.options import option
from constrained.server.settings import ServerSettings


@dataclass(frozen=True)
class ServeOptions:
    """The options of `serve` beside the settings of a server."""

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8000, "Port to listen on; 0: any free port.", least=0, most=65535)
    api_key: tuple[str, ...] = option(
        (),
        "A key that clients may send, several times for several keys; other users of the machine can read it "
        "[default: those in $CONSTRAINED_API_KEY, between spaces, or none].",
        metavar="KEY",
        variable="CONSTRAINED_API_KEY",
    )
    api_key_file: Path | None = option(None, "A file of such keys, one in a line.", metavar="FILE")
    name: str | None = option(
        None, "Name of a single model for clients [default: MODEL, or constrained-tiny]."
    )
    lora: tuple[str, ...] = option(
        (),
        "A LoRA adapter of the single MODEL, by a folder or a name on the Hub, served as a model called NAME; "
        "several times for several.",
        metavar="NAME=ADAPTER",
    )
    device: str | None = option(None, "cpu, cuda, cuda:1, ...", metavar="DEVICE")
    assistant: str | None = option(
        None,
        "A smaller model, best of the same tokens, which drafts for them, with --speculation.",
        metavar="MODEL",
    )
    isolate: bool = option(
        False, "One forward pass for each sequence: results do not depend on the batch, to the last bit."
    )
    tool_format: str | None = option(
        None,
        "How the model writes tool calls: hermes, llama3, mistral, mistral-args, harmony, granite3, gemma4, "
        "function-gemma, lfm2, olmo3 or pythonic [default: by its template].",
        metavar="NAME",
    )
    speculation: str = option("off", SPECULATION, metavar="auto|off|N")

    def __post_init__(self) -> None:
        resolve_speculation_option(self.speculation)

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The keys of the command line and of a file; None: no authentication.

        Raises:
            BadInput: the file cannot be read, or has no key.
        """
        keys = [*self.api_key]
        if (file := self.api_key_file) is not None:
            try:
                keys += file.read_text(encoding="utf-8").split()
            except (OSError, UnicodeDecodeError) as error:
                raise BadInput(f"cannot read the keys in {file}: {error}") from None
            if not keys:
                raise BadInput(f"there is no key in {file}", action="write one in each line")
        return tuple(keys) or None


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
    options: ServeOptions,
    settings: ServerSettings,
) -> None:
    """Serve models to OpenAI clients: chat, completions, tools, structured outputs.

    Runs until SIGTERM or Ctrl-C and then finishes the running requests; a second Ctrl-C ends it at once.
    """
    named = _named(models or [], options.name)
    adapters = _adapters(options.lora, named)
    # The libraries alone take seconds to import, and a large model takes minutes.
    print(f"loading {', '.join([*named, *adapters])}", file=sys.stderr, flush=True)
    from constrained.chat.tool_format_probe import FORMATS
    from constrained.server import serve as run

    format = None if options.tool_format is None else FORMATS.get(options.tool_format)
    if options.tool_format is not None and format is None:
        raise BadInput(
            f"the tool format {options.tool_format!r} is not known", action=f"use {', '.join(FORMATS)}"
        )
    if options.assistant is not None and options.speculation == "off":
        raise BadInput("an assistant drafts, and drafts are off", action='pass speculation="auto", too')
    settings = replace(
        settings,
        api_key=options.keys,
        speculation=resolve_speculation_option(options.speculation),
    )
    from constrained.cli.generation import silence_libraries

    sources = set(named.values())
    silence_libraries(bars=sources != {None})
    from constrained.models import load
    from constrained.models.loading import with_adapter

    by_source = {
        one: load(one, device=options.device, isolate=options.isolate or None, assistant=options.assistant)
        for one in dict.fromkeys(named.values())
    }
    loaded = {one: by_source[source] for one, source in named.items()}
    loaded |= {one: with_adapter(next(iter(loaded.values())), source) for one, source in adapters.items()}
    if sources == {None}:
        import torch

        torch.set_num_threads(1)  # the model is so small that threads wait longer than they compute

    def on_ready(url: str) -> None:
        print(f"serving {', '.join(loaded)} at {url}/v1", file=sys.stderr, flush=True)

    run(loaded, settings, host=options.host, port=options.port, format=format, on_ready=on_ready)


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


def _adapters(given: tuple[str, ...], models: dict[str, str | None]) -> dict[str, str]:
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
