"""The inputs of a command: a text from an argument, a file or a pipe, and a constraint from options."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli.exit_status import BadInput
from constrained.cli.options import ConstraintOptions, JsonOptions
from constrained.errors import ConstrainedError, PromptError

if TYPE_CHECKING:
    from constrained.constraint import Constraint

TEXT_LIMIT = 16 << 20
"""Bytes that are read of a text or schema: far more than the context of any model."""

_ONE_CONSTRAINT = (
    "pass one of --schema FILE.json, --type module:Class, --fields NAMES, --regex PATTERN, --choice A,B,C"
)


# ---------------------------------------------------------------- texts


def read_text(argument: str | None, file: Path | None, *, what: str) -> str:
    """The text of a command: its argument, the content of a file, or standard input.

    Args:
        argument: the text itself; ``-`` stands for standard input.
        file: file to read.
        what: name of the text in error messages.

    Raises:
        BadInput: the text is missing, given twice, blank, too large, not UTF-8, or cannot be read.
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
    except UnicodeEncodeError as error:  # bytes that Python could not decode in this locale: try UTF-8
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


def read_images(paths: Sequence[Path]) -> list[Any]:
    """The images of files, as PIL images.

    Raises:
        BadInput: a file is missing, a folder, unreadable, too big, or no image.
        MissingExtra: pillow is not installed.
    """
    from constrained.prompting.images import MAX_PIXELS, open_image

    images: list[Any] = []
    left = MAX_PIXELS
    for path in paths:
        data = read_file(path, smaller="make the image smaller")
        try:
            images.append(open_image({"type": "image", "image": data}, str(path), left))
        except PromptError as error:
            action = f"name files of images, PNG, JPEG, ..., of at most {MAX_PIXELS:,} pixels together"
            raise BadInput(error.summary, action=action) from None
        left -= images[-1].width * images[-1].height
    return images


def read_file(path: Path, *, smaller: str = "split it into smaller parts") -> bytes:
    """The bytes of a file.

    Args:
        path: of the file.
        smaller: what to do about one that is too big.

    Raises:
        BadInput: it is missing, a folder, unreadable, or too big.
    """
    try:
        with path.open("rb") as file:
            return _bounded(file.read(TEXT_LIMIT + 1), str(path), smaller)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{path} cannot be read: {reason[:1].lower()}{reason[1:]}") from None


def _bounded(data: bytes, source: str, smaller: str = "split it into smaller parts") -> bytes:
    if len(data) > TEXT_LIMIT:
        raise BadInput(f"{source} has more than {TEXT_LIMIT >> 20} MiB", action=smaller)
    return data


# ---------------------------------------------------------------- constraints


def read_constraint(
    options: ConstraintOptions, json_options: JsonOptions, *, for_generation: bool = False
) -> Constraint:
    """The constraint that options name.

    Args:
        options: exactly one of them is set.
        json_options: for constraints that are JSON.
        for_generation: as `constrained.constraint.generated.generated_constraint`; options say otherwise.

    Raises:
        BadInput: none or several are set, or a file or name cannot be read.
        ConstraintError: as the constructors of `constrained`.
    """
    from constrained import constraint
    from constrained.constraint.json import MAX_DIGITS

    schema, type_, regex, fields = options.schema, options.type_, options.regex, options.fields
    count = sum(value is not None for value in (schema, type_, regex, fields, options.choice or None))
    if count != 1:
        problem = "no constraint was given" if not count else "several constraints were given"
        raise BadInput(problem, action=_ONE_CONSTRAINT)
    arguments = json_options.arguments()
    max_digits = MAX_DIGITS if for_generation else None
    if schema is not None:
        return _schema_constraint(schema, _as_generated(arguments, for_generation), max_digits)
    if type_ is not None:
        return _type_constraint(load_object(type_), type_, arguments, for_generation)
    if fields is not None:
        return _type_constraint(constraint.fields(fields), "--fields", arguments, for_generation)
    if regex is not None:
        _refuse_json_options(arguments, "--regex")
        return constraint.regex(_checked(regex, "pattern"))
    _refuse_json_options(arguments, "--choice")
    parts = [part.strip() for item in options.choice or () for part in _checked(item, "choice").split(",")]
    choices = [part for part in parts if part]
    if not choices:
        raise BadInput("--choice names nothing", action="name what to choose from: --choice yes,no")
    return constraint.choice(choices)


def add_positional(target: str, options: ConstraintOptions) -> ConstraintOptions:
    """The options with a positional argument as schema, or as type if it is not a file and has a colon.

    Raises:
        BadInput: the options name a schema or a type already.
    """
    if options.schema is not None or options.type_ is not None:
        raise BadInput("several constraints were given", action=_ONE_CONSTRAINT)
    is_type = ":" in target and not target.lstrip().startswith("{") and not Path(target).exists()
    return replace(options, type_=target) if is_type else replace(options, schema=target)


def _as_generated(arguments: dict[str, Any], for_generation: bool) -> dict[str, Any]:
    """The arguments of a schema that a model writes; see `constrained.constraint.generated.generated_constraint`."""
    from constrained.constraint.json import ONE_LINE

    if not for_generation:
        return arguments
    layout = {} if "whitespace" in arguments else {"separators": ONE_LINE}
    return {"additional_properties_default": False, "distinct_names": True, **layout, **arguments}


def _type_constraint(target: Any, name: str, arguments: dict[str, Any], for_generation: bool) -> Constraint:
    from constrained import constraint
    from constrained.constraint.json import MAX_DIGITS

    if isinstance(target, constraint.Constraint):
        _refuse_json_options(arguments, f"{name}, which is a finished constraint")
        return target
    if isinstance(target, (dict, bool)):
        digits = MAX_DIGITS if for_generation else None
        return constraint.json_schema(target, max_digits=digits, **_as_generated(arguments, for_generation))
    _refuse_json_options(
        {option: arguments[option] for option in arguments if option not in _TYPE_OPTIONS}, "a Python type"
    )
    if not for_generation:
        return constraint.python_type(target, **arguments)
    layout = _as_generated(arguments, for_generation)
    layout.pop("additional_properties_default")
    return constraint.python_type(target, dates="written", repeats=False, **layout)


_SOME_SCHEMA = "give JSON, such as {}, or a file of JSON"


def _schema_constraint(schema: str, arguments: dict[str, Any], max_digits: int | None) -> Constraint:
    from constrained import constraint

    if not schema.strip():
        raise BadInput("the schema is empty", action=_SOME_SCHEMA)
    inline = schema.lstrip().startswith("{")
    if not inline and Path(schema).suffix == ".py":
        raise BadInput(f"{schema} is a program, and no schema", action=f"name the type in it: {schema}:NAME")
    if not inline and Path(schema).suffix == ".lark":
        _refuse_json_options(arguments, "a Lark grammar")
        path = Path(schema)
        return constraint.lark(_decoded(read_file(path), schema), import_paths=[str(path.parent)])
    source: str | bytes = _checked(schema, "schema") if inline else read_file(Path(schema))
    if not source.strip():
        raise BadInput(f"{schema} is empty", action=_SOME_SCHEMA)
    with contextlib.nullcontext() if inline else _error_prefix(schema):
        return constraint.json_schema(source, max_digits=max_digits, **arguments)


@contextlib.contextmanager
def _error_prefix(name: str) -> Iterator[None]:
    """Puts the name of a file before the summary of an error."""
    try:
        yield
    except ConstrainedError as error:
        raise type(error)(f"{name}: {error.summary}", error.problems, action=error.action) from None


_TYPE_OPTIONS = ("whitespace", "separators", "ensure_ascii", "max_string_length", "max_items")
_OPTION_NAMES = {
    "additional_properties_default": "closed",
    "draft": "json-schema-draft",
    "formats": "no-formats",
}


def _refuse_json_options(arguments: dict[str, Any], what: str) -> None:
    for name in arguments:
        option = _OPTION_NAMES.get(name, name).replace("_", "-")
        raise BadInput(f"--{option} does not apply to {what}", action="leave it out")


# ---------------------------------------------------------------- Python objects


def load_object(name: str) -> Any:
    """The object with the name ``module:Name`` or ``path/to/file.py:Name``; modules are found from the working folder.

    Output of the module goes to standard error, because standard output is for the result.

    Raises:
        BadInput: it cannot be found or imported.
    """
    module_name, colon, attribute = name.rpartition(":")
    if not colon or not module_name or not attribute:
        raise BadInput(
            f"{name!r} does not name a Python object", action="write module:Name, or path/to/file.py:Name"
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
    except (Exception, SystemExit) as error:  # an import runs any code
        raise BadInput(f"{name} cannot be imported: {_where(error)}") from None


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    # Removed afterwards: a user's json.py must not shadow the standard module in later imports.
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def _from_file(path: Path) -> Any:
    name = f"_file_{path.stem}"  # the stem alone could be the name of an installed module
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
        return reason  # it contains file and line
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    return f"{reason} ({Path(ours[-1].filename).name}, line {ours[-1].lineno})" if ours else reason
