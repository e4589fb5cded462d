"""The action SVD: parameters of a model replaced by products of two smaller ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cntk_core.api import Action, Config, ConfigError, DataError, Location
from cntk_core.api.builders import Reduction, reduce_network
from cntk_core.api.recipes import RecipeContext

_RULE = "-" * 92
_EXAMPLE = (
    "Each line has a regular expression for names of parameters, a blank or a tab, and a ratio, such as: W[1-5]  0.4"
)


class SvdAction(Action):
    """Replaces parameters of a model by products of two smaller ones."""

    requires_api = "1.0"
    name = "SVD"
    writes = ("outputmodelPath",)

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        section.require("modelPath")
        section.require("outputmodelPath")
        _ratio(section)
        _alignment(section)
        pattern = section.string("NodeNameRegex", "")
        _compiled(pattern, section.location("NodeNameRegex"))

    def run(self, context: RecipeContext, section: Config) -> None:
        """Read ``modelPath``, reduce its parameters, and write ``outputmodelPath``.

        Raises:
            CntkError: a file cannot be read or written, or a ratio makes no sense.
        """
        ratios = _ratios(section)
        network = context.load_model(section.string("modelPath"), section.location("modelPath"))
        groups = reduce_network(network, ratios, _alignment(section))
        for number, (ratio, group) in enumerate(zip((ratios[key] for key in sorted(ratios)), groups, strict=True)):
            for text in (_RULE, f"ParameterSVD: start to process group {number} with KeepRatio={ratio:.2f}", _RULE):
                context.log.plain(text)
            for reduction in group:
                context.log.plain(_line(reduction))
            if not group:
                context.log.plain("No parameter that is a matrix matches.")
        context.save_model(network, section.string("outputmodelPath"), section.location("outputmodelPath"))


def _line(done: Reduction) -> str:
    return (
        f"Performing SVD for a {done.rows:5d}-by-{done.columns:<5d} matrix (node name: {done.name:<20s}) ---  "
        f"computation time {done.seconds:5.2f} secs ;  keep {done.keep_ratio * 100:4.1f}% energy ===> "
        f"keep {done.rank:5d} svd values (reduce to {done.share * 100:4.1f}% parameters) "
    )


def _ratios(section: Config) -> Mapping[str, float]:
    """Pattern to ratio: ``NodeNameRegex`` with ``KeepRatio``, or the lines of the ``SVDConfig`` file."""
    pattern, file = section.string("NodeNameRegex", ""), section.string("SVDConfig", "")
    if pattern or not file:
        return {pattern: _ratio(section)}
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise DataError(
            f"the SVDConfig '{file}' cannot be read: {error.strerror}", where=section.location("SVDConfig")
        ) from None
    found: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        where = Location(file, number)
        if len(words) != 2:
            raise DataError(f"the line has {len(words)} words, not 2", where=where, hint=_EXAMPLE)
        _compiled(words[0], where)
        found[words[0]] = _checked_ratio(words[1], where)
    return found


def _ratio(section: Config) -> float:
    ratio = section.real("KeepRatio", 0.4)
    return _checked_ratio(f"{ratio:g}", section.location("KeepRatio"))


def _checked_ratio(text: str, where: Location) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ConfigError(
            f"a KeepRatio is a number from 0 to 1, not '{text}'",
            where=where,
            hint="It is the share of the sum of the singular values that is kept; 1 keeps all.",
        )
    return ratio


def _alignment(section: Config) -> int:
    size = section.integer("AlignedSize", 8)
    if size < 1:
        raise ConfigError(f"AlignedSize must be at least 1, not {size}", where=section.location("AlignedSize"))
    return size


def _compiled(pattern: str, where: Location) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"'{pattern}' is not a regular expression: {error}",
            where=where,
            hint="It must match a whole parameter name, for example W.* for all names that begin with W.",
        ) from None
