"""The compiled modules of a checkout: are they there, and do they belong to the sources?"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("constrained", "constrained.grammars", "constrained.spec")
_ACTION = "build them again: pip install -e . in the folder of the sources"


def native_problem() -> str | None:
    """What is wrong with the compiled modules of a checkout, and what to do; None where nothing is, or no sources are there.

    A module that is older than its sources may lack what the Python code calls, or take other arguments. Many changes of
    sources do no harm, so age alone is no error: ask after something has failed.
    """
    for package in _PACKAGES:
        home = find_spec(package)
        if home is None or home.origin is None:
            continue
        folder = Path(home.origin).parent / "_core"
        sources = [*folder.glob("*.cpp"), *folder.glob("*.hpp")]
        if not sources:  # an installed package
            continue
        module = find_spec(f"{package}._core")
        if module is None or module.origin is None:  # the folder of the sources, in the place of the module
            return (
                f"{package}/_core is not compiled in {folder.parent.parent}, a checkout of the sources\n"
                f"  -> {_ACTION}; or start Python in another folder, where it finds an installed constrained"
            )
        newest = max(sources, key=_changed)
        if _changed(newest) > _changed(Path(module.origin)):
            return (
                f"{package}/_core was compiled before {package}/_core/{newest.name} changed\n  -> {_ACTION}"
            )
    return None


def _changed(path: Path) -> float:
    return path.stat().st_mtime
