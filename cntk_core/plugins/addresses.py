"""Files elsewhere, by addresses such as ``s3://bucket/net.dnn``: a plugin keeps copies of them here.

A wheel offers it as an entry point of the group ``cntk.addresses``, a class that is made without arguments: see
:class:`Addresses`. Whoever opens a file that a user names asks :func:`local_path` first, and calls :func:`deliver` when
a file is whole that was written to such a path. Values of a recipe, model files and the words of a command line are
asked for by the core and the kit of recipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from cntk_core.config.addresses import copies_by
from cntk_core.errors import BrokenPluginError, CntkError, Location, MissingPluginError
from cntk_core.plugins.discovery import Discovery, unwanted
from cntk_core.plugins.faults import plugins_named
from cntk_core.plugins.importing import ImportTimeout, importing
from cntk_core.plugins.known import known
from cntk_core.plugins.offer import at, normal_name
from cntk_core.trust import OPTION, RefusedError, policy

GROUP = "cntk.addresses"

# A Path has one slash where the address had two. One letter before the colon is a disk of Windows.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(//?)?[^/\s]")


class Addresses(Protocol):
    """Keeps copies of files elsewhere. Threads call it, and processes side by side."""

    def path(self, name: str) -> str | None:
        """Return the path that the copy of an address has, or of a path of a copy that path; None for anything else."""

    def bring(self, path: str, *, again: bool = False) -> None:
        """See to it that a copy is what lies at its address; that there is nothing is no error.

        Once is enough, until something is delivered; ``again``: look once more.

        Raises:
            CntkError: it cannot be found out, or brought here.
        """

    def bring_family(self, path: str) -> None:
        """Do it for all files whose names begin with that of a model and a dot, too; :meth:`deliver` removes them."""

    def deliver(self, *, whole: bool = True) -> None:
        """Send what was written since; with ``whole=False`` the files of trainings alone, which are never half.

        Raises:
            CntkError: something cannot be sent.
        """

    def shown(self, text: str) -> str:
        """Return a text with addresses in place of the paths of copies."""


def local_path(name: str | Path, where: Location | None = None, *, again: bool = False) -> str:
    """Return the path of the copy of a file elsewhere, which is brought here; any other name as it is.

    Args:
        name: an address, a path in the folder of copies, or another path.
        where: its place, for messages.
        again: look whether it has changed since it was asked for in this run.

    Raises:
        MissingPluginError: it is an address, and nothing installed knows of such.
        CntkError: it cannot be brought here. That there is no such file is left to whoever opens it.
    """
    text = str(name)
    if not _used and not _is_address(text):
        return text
    path = _addresses(text, where).path(text)
    if path is None:
        return text
    if policy() is not None:
        raise RefusedError(f"{OPTION}: '{text}' lies elsewhere", where=where, hint="Bring it here, and name the file.")
    with _at(where):
        _addresses().bring(path, again=again)
    return path


def local_family(path: str | Path, where: Location | None = None) -> None:
    """If a model is the copy of one elsewhere, bring its checkpoints, too. Raises CntkError if that fails."""
    if _used and (found := _addresses().path(str(path))) is not None:
        with _at(where):
            _addresses().bring_family(found)


def deliver(*, whole: bool = True) -> None:
    """Send what was written to copies of files elsewhere: see :meth:`Addresses.deliver`."""
    if _used:
        with plugins_named():
            _addresses().deliver(whole=whole)


def with_addresses(text: str) -> str:
    """Return a text for people: it has addresses in place of the paths of copies."""
    return _addresses().shown(text) if _used else text


_used: list[bool] = []
"""Has something when an address was named in this process; before, nothing is looked for."""


def _is_address(text: str) -> bool:
    return _ADDRESS.match(text) is not None and not Path(text).exists()


@contextmanager
def _at(where: Location | None) -> Iterator[None]:
    try:
        with plugins_named():
            yield
    except CntkError as error:
        error.where = error.where or where
        raise


def _addresses(text: str = "", where: Location | None = None) -> Addresses:
    found = _provider()
    if found is None:
        wheel = next((wheel for _, wheel in known(GROUP).values()), None)
        raise MissingPluginError(
            f"'{text}' is an address, and nothing that is installed brings files from elsewhere",
            where=where,
            hint=wheel.pip_line if wheel else None,
            requirement=wheel.requirement if wheel else "",
        )
    if isinstance(found, BrokenPluginError):
        raise at(found, where)
    _used[:] = [True]
    return found


@cache
def _provider() -> Addresses | BrokenPluginError | None:
    off = {normal_name(word) for word in unwanted()}
    for name, point, source in Discovery().entries(GROUP):
        if normal_name(source.name) in off:
            continue
        try:
            with importing(source), plugins_named():
                return cast(Addresses, point.load()())
        except BrokenPluginError as error:
            return error
        except (Exception, ImportTimeout) as error:
            return BrokenPluginError(f"'{name}' of {source} cannot be loaded: {error}")
    return None


copies_by(local_path)
