"""Model files of all formats: which plugin reads one, and which writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.contract.component import Unavailable
from cntk_core.contract.model_format import BEGIN, ModelFormat
from cntk_core.errors import ModelFormatError, PluginError, WrongResult, shown
from cntk_core.network.network import Network
from cntk_core.plugins.addresses import deliver, local_path
from cntk_core.plugins.discovery import CORE_WHEEL

if TYPE_CHECKING:
    from cntk_core.plugins.registry import Registry


class ModelFiles:
    """Reads and writes model files by the formats that a registry has.

    Args:
        registry: has the formats and the operations.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def is_model(self, path: str | Path) -> bool:
        """Whether a file is a model of any format; a recipe is none, and a file that cannot be read neither."""
        try:
            return self._recognize(Path(local_path(path))) is not None
        except ModelFormatError:
            return False

    def load(self, path: str | Path, dtype: Any = None) -> Network:
        """Read a network with its values, in the first format that recognizes the file; the core's own come first.

        Args:
            path: the file.
            dtype: convert to this precision; None keeps that of the file.

        Raises:
            ModelFormatError: the file cannot be read, no format recognizes it, or it is damaged.
            UnsupportedError: there is something in it that cannot be read yet.
        """
        file = Path(local_path(path, again=True))
        found = self._recognize(file)
        if found is None:
            raise ModelFormatError(f"'{path}' is no model: no format recognizes it", hint=self._known())
        network = found.load(file, self._registry.ops.find, dtype)
        if not isinstance(network, Network):
            raise WrongResult(found.load, f"returned {shown(network)}, not a network")
        return network

    def save(self, network: Network, path: str | Path, name: str = "") -> None:
        """Write a network with its values in the format that :meth:`writer` returns.

        Raises:
            PluginError: there is no such format.
            CntkError: the network cannot be written in this format, or nothing is written in it.
            OSError: the file cannot be written.
        """
        self.writer(path, name).save(network, Path(local_path(path)))
        deliver()

    def writer(self, path: str | Path, name: str = "") -> ModelFormat:
        """Return the format of a name; by default that which the suffix of a file says, else the core's own.

        Raises:
            PluginError: there is no such format.
            ModelFormatError: there is none at all.
        """
        if name:
            return self._registry.model_formats.get(name)()
        suffix = Path(path).suffix.lower()
        usable = [one for one, _ in self._usable()]
        chosen = next((one for one in usable if suffix and suffix in one.suffixes), usable[0] if usable else None)
        if chosen is None:
            raise ModelFormatError(f"the model '{path}' cannot be written: there is no format", hint=self._known())
        return chosen

    def _usable(self) -> Iterator[tuple[ModelFormat, str]]:
        """Yield the formats that can be loaded and run here, the core's own first, each with its name."""
        offers = self._registry.model_formats.offers()
        for offer in sorted(offers, key=lambda offer: (offer.name != OWN, offer.source.name != CORE_WHEEL)):
            answer = offer.availability()
            if not isinstance(answer, PluginError | Unavailable):
                yield offer.get()(), offer.name

    def _recognize(self, path: Path) -> ModelFormat | None:
        begin = _begin(path)
        return next((one for one, _ in self._usable() if _recognizes(one, begin, path)), None)

    def _known(self) -> str:
        names: dict[str, list[str]] = {}
        reasons = []
        for offer in self._registry.model_formats.offers():
            answer = offer.availability()
            if isinstance(answer, PluginError):
                reasons.append(answer.message)
            elif isinstance(answer, Unavailable):
                reasons.append(f"{offer.title} cannot run here: {answer.reason}")
            else:
                names.setdefault(str(offer.source), []).append(offer.name)
        listed = ", ".join(f"{', '.join(some)} ({source})" for source, some in names.items())
        return "\n".join([f"Formats: {listed or 'none'}", *reasons])


OWN = "cntk-core"
"""Name of the core's own format: it is asked first, and written where nothing else is said."""


def _begin(path: Path) -> bytes:
    try:
        # A device or a pipe may never end: it is not opened.
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ModelFormatError(f"the model '{path}' cannot be read: it is no file")
        with path.open("rb") as file:
            return file.read(BEGIN)
    except OSError as error:
        raise ModelFormatError(f"the model '{path}' cannot be read: {error.strerror}") from None
    except ValueError:
        raise ModelFormatError(f"the model {str(path)!r} cannot be read: the name has a zero character") from None


def _recognizes(one: ModelFormat, begin: bytes, path: Path) -> bool:
    """Ask a format. One that fails on a file that is not its own does not keep the others from reading it."""
    try:
        return one.recognizes(begin, path)
    except Exception:
        return False
