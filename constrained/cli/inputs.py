"""What a command is given: a text out of an argument, a file or a pipe, and a constraint out of options."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli.exit_status import BadInput
from constrained.errors import ConstrainedError

if TYPE_CHECKING:
    from constrained.constraint import Constraint

TEXT_LIMIT = 16 << 20
"""Bytes of a text or schema that are read: far more than any model has room for."""

_WAYS = "--schema FILE.json, --type module:Class, --regex PATTERN or --choice A,B,C"


# ---------------------------------------------------------------- texts


def read_text(argument: str | None, file: Path | None, *, what: str) -> str:
    """The text a command works on: its argument, a file, or else what is piped into it.

    Args:
        argument: the text itself; ``-`` stands for standard input.
        file: where to read it.
        what: its name in messages.

    Raises:
        BadInput: there is none, there are two, it is blank, too big, not UTF-8, or cannot be read.
    """
    if argument is not None and file is not None:
        raise BadInput(f"the {what} is given twice: as an argument and as --file", action="give one of them")
    if argument is not None and argument != "-":
        text, source = _checked(argument, what), f"the {what}"
    elif file is not None:
        text, source = _decoded(read_file(file), str(file)), str(file)
    else:
        text, source = _piped(what), "standard input"
    if not text.strip():
        raise BadInput(f"{source} is empty", action=f"give a {what} with content")
    return text


def _piped(what: str) -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise BadInput(f"no {what} was given", action=f'pass "a {what}", --file FILE, or pipe one in')
    data = sys.stdin.buffer.read(TEXT_LIMIT + 1)
    return _decoded(_bounded(data, "standard input"), "standard input")


def _checked(argument: str, what: str) -> str:
    try:
        argument.encode()
    except UnicodeEncodeError as error:  # bytes that Python could not read in this locale; are they UTF-8?
        with contextlib.suppress(UnicodeDecodeError):
            return os.fsencode(argument).decode("utf-8")
        raise BadInput(f"the {what} is not valid UTF-8 at character {error.start}") from None
    return argument


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{source} is not UTF-8 text: {error.reason} at byte {error.start}",
            action="convert it, with iconv -t UTF-8 for example",
        ) from None


def read_file(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        BadInput: it is missing, a folder, unreadable, or too big.
    """
    try:
        with path.open("rb") as file:
            return _bounded(file.read(TEXT_LIMIT + 1), str(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{path} cannot be read: {reason[:1].lower()}{reason[1:]}") from None


def _bounded(data: bytes, source: str) -> bytes:
    if len(data) > TEXT_LIMIT:
        raise BadInput(f"{source} has more than {TEXT_LIMIT >> 20} MiB", action="split it into smaller parts")
    return data


# ---------------------------------------------------------------- constraints


def read_constraint(
    schema: str | None = None,
    type_: str | None = None,
    regex: str | None = None,
    choice: Sequence[str] | None = None,
    whitespace: str | None = None,
    **more: Any,
) -> Constraint:
    """The constraint that options name; exactly one of them.

    Args:
        schema: a file with a JSON Schema, or the schema itself, beginning with ``{``.
        type_: ``module:Name`` or ``path/to/file.py:Name``.
        regex: a pattern.
        choice: alternatives; each item may hold several, between commas.
        whitespace: of JSON; None for the default.
        more: other options of `constrained.json_schema`.

    Raises:
        BadInput: none or several are given, or a file or name cannot be read.
        ConstraintError: as the constructors of `constrained`.
    """
    from constrained import constraint

    given = [value for value in (schema, type_, regex, choice or None) if value is not None]
    if len(given) != 1:
        problem = "no constraint was given" if not given else "several constraints were given"
        raise BadInput(problem, action=f"say what is wanted, once: {_WAYS}")
    json_options: Any = more if whitespace is None else {"whitespace": whitespace, **more}
    if schema is not None:
        return _of_schema(schema, json_options)
    if type_ is not None:
        target = load_object(type_)
        if isinstance(target, constraint.Constraint):
            _refuse_json(json_options, f"{type_}, which is a finished constraint")
            return target
        if isinstance(target, (dict, bool)):
            return constraint.json_schema(target, **json_options)
        _refuse_json({name: more[name] for name in more if name not in _OF_TEXTS}, "a Python type")
        return constraint.python_type(target, **json_options)
    if regex is not None:
        _refuse_json(json_options, "--regex")
        return constraint.regex(_checked(regex, "pattern"))
    _refuse_json(json_options, "--choice")
    parts = [part.strip() for item in choice or () for part in _checked(item, "choice").split(",")]
    return constraint.choice([part for part in parts if part])


def split_target(target: str, schema: str | None, type_: str | None) -> tuple[str | None, str | None]:
    """A positional target as (schema, type): a file is a schema, unless it is one of Python's with a name behind.

    Raises:
        BadInput: there is a constraint already.
    """
    if schema is not None or type_ is not None:
        raise BadInput("several constraints were given", action=f"say what is wanted, once: {_WAYS}")
    is_type = ":" in target and not target.lstrip().startswith("{") and not Path(target).exists()
    return (None, target) if is_type else (target, None)


def _of_schema(schema: str, options: dict[str, Any]) -> Constraint:
    from constrained import constraint

    inline = schema.lstrip().startswith("{")
    source: str | bytes = _checked(schema, "schema") if inline else read_file(Path(schema))
    with contextlib.nullcontext() if inline else _about(schema):
        return constraint.json_schema(source, **options)


@contextlib.contextmanager
def _about(name: str) -> Iterator[None]:
    """Puts the name of a file before what is wrong with it."""
    try:
        yield
    except ConstrainedError as error:
        raise type(error)(f"{name}: {error.summary}", error.problems, action=error.action) from None


_OF_TEXTS = ("separators", "ensure_ascii")
_NAMES = {"additional_properties_default": "closed", "formats": "no-formats"}


def _refuse_json(options: dict[str, Any], what: str) -> None:
    for name in options:
        option = _NAMES.get(name, name).replace("_", "-")
        raise BadInput(f"--{option} means nothing for {what}", action="leave it out")


# ---------------------------------------------------------------- Python objects


def load_object(name: str) -> Any:
    """The object that ``module:Name`` or ``path/to/file.py:Name`` names; modules are found from the working folder.

    What the module prints goes to standard error: standard output belongs to the result.

    Raises:
        BadInput: it cannot be found or imported.
    """
    module_name, colon, attribute = name.rpartition(":")
    if not colon or not module_name or not attribute:
        raise BadInput(
            f"{name!r} names no Python object", action="write module:Name, or path/to/file.py:Name"
        )
    with contextlib.redirect_stdout(sys.stderr):
        module = _imported(module_name)
    try:
        return reduce(getattr, attribute.split("."), module)
    except AttributeError:
        close = difflib.get_close_matches(attribute, vars(module), n=1)
        hint = f"did you mean {module_name}:{close[0]}?" if close else "check the name after the colon"
        raise BadInput(f"{module_name} has no {attribute!r}", action=hint) from None


def _imported(name: str) -> Any:
    is_file = name.endswith(".py")
    path = Path(name)
    if is_file and not path.is_file():
        raise BadInput(f"{name} cannot be read: no such file")
    try:
        with _importable(path.resolve().parent if is_file else Path.cwd()):
            return _from_file(path) if is_file else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not is_file and (name == error.name or name.startswith(error.name + ".")):
            raise BadInput(
                f"no module named {error.name!r}",
                action="run from the folder that holds it, or name the file: path/to/file.py:Class",
            ) from None
        extra = (
            "pip install 'constrained-generation[types]'"
            if error.name == "pydantic"
            else f"install {error.name}"
        )
        raise BadInput(f"{name} needs {error.name}, which is not installed", action=extra) from None
    except (Exception, SystemExit) as error:  # a module may do anything when it is imported
        raise BadInput(f"{name} cannot be imported: {_where(error)}") from None


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    # Only for a while: a user's json.py must not get in the way of what is imported later.
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def _from_file(path: Path) -> Any:
    name = f"_file_{path.stem}"  # not the stem alone, which may be an installed module's name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations are resolved through it
    spec.loader.exec_module(module)
    return module


def _where(error: BaseException) -> str:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, SyntaxError):
        return reason  # says file and line itself
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    return f"{reason} ({Path(ours[-1].filename).name}, line {ours[-1].lineno})" if ours else reason
