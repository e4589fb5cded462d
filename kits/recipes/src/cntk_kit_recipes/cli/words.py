"""The words of the command: verbs of the core and of installed wheels, plugin files and hooks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cntk_core import __version__
from cntk_core.contract.verb import Verb
from cntk_core.errors import MissingPluginError, PluginError, did_you_mean
from cntk_core.plugins.discovery import SWITCH, VERBS_GROUP, CoreParts, Discovery, unwanted
from cntk_core.plugins.offer import ComponentOffer, Kind
from cntk_core.plugins.precedence import Preferences
from cntk_core.system.console import tell
from cntk_core.trust import OPTION
from cntk_kit_recipes.cli.plugin_words import NO_PLUGIN, PLUGIN
from cntk_kit_recipes.cli.summaries import summary

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

_KIND = Kind("verb", VERBS_GROUP, Verb)


def installed() -> dict[str, list[ComponentOffer[Verb]]]:
    """Return what the core and installed wheels offer, by word in alphabetical order. Nothing of it is imported."""
    preferences = Preferences()
    preferences.switch_off(unwanted(), SWITCH)
    found: dict[str, list[ComponentOffer[Verb]]] = {}
    for name, entry, source in [*CoreParts().entries(VERBS_GROUP), *Discovery().entries(VERBS_GROUP)]:
        offer: ComponentOffer[Verb] = ComponentOffer("verb", name, source, entry.value, entry.load, kind=_KIND)
        if preferences.off("verb", name, source) is None:
            found.setdefault(name, []).append(offer)
    return dict(sorted(found.items()))


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser that knows all verbs by name, for ``cntk --help``."""
    parser, verbs = _parsers()
    for word, offers in installed().items():
        line = _help_line(summary(offers[0].target)) or f"a verb of {offers[0].source}"
        verbs.add_parser(word, help=line.replace("%", "%%"))
    return parser


def parser_of(word: str, plugin_files: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser for the command lines that begin with a word.

    A verb that a single wheel offers is loaded alone. Otherwise all plugins are asked, those in files first.

    Raises:
        PluginError: the verb is broken, or two wheels offer it.
        SystemExit: there is no such verb.
    """
    parser, verbs = _parsers()
    offers = installed().get(word, [])
    if len(offers) == 1 and not plugin_files:
        _add(verbs, word, offers[0].get())
        return parser
    from cntk_core.plugins.manager import PluginManager

    plugins = PluginManager(plugin_files, load_hooks=not offers)
    table = plugins.registry.verbs
    if word in table.names():
        _add(verbs, word, table.get(word))
        return parser
    for listener in plugins.listeners("cntk_add_commands"):
        listener(subparsers=verbs)
    if word not in verbs.choices:
        try:
            table.find(word)
        except MissingPluginError as error:
            parser.error(_unknown(word, error, [*table.names(), *verbs.choices]))
        parser.error(f"there is no verb '{word}'; did you mean '{table.find(word).name}'?; see cntk --help")
    return parser


def full_parser(plugin_files: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser with the arguments of all verbs, for what is said of all of them; each is loaded.

    A verb that cannot be loaded is left out, and the console says why.
    """
    from cntk_core.plugins.manager import PluginManager

    parser, verbs = _parsers()
    plugins = PluginManager(plugin_files)
    table = plugins.registry.verbs
    for word in table.names():
        try:
            _add(verbs, word, table.get(word))
        except PluginError as error:
            tell(f"the verb '{word}' is left out: {error}")
    for listener in plugins.listeners("cntk_add_commands"):
        listener(subparsers=verbs)
    return parser


def _parsers() -> tuple[argparse.ArgumentParser, Verbs]:
    parser = argparse.ArgumentParser(
        prog="cntk",
        description="Runs CNTK recipes; every part is a plugin.",
        epilog="As with CNTK: cntk configFile=recipe.cntk key=value section=[key=value] ..., "
        'or cntk -f recipe.bs [-D "name = value"] [-I folder] [--cd folder]',
    )
    parser.add_argument("--version", action="version", version=f"cntk-core {__version__}")
    return parser, parser.add_subparsers(metavar="VERB", dest="verb")


def _add(verbs: Verbs, word: str, component: type[Verb]) -> None:
    description = (component.__doc__ or "").strip().partition("\n")[0]
    line = _help_line(description).replace("%", "%%")
    parser = verbs.add_parser(word, help=line, description=description, conflict_handler="resolve")
    parser.add_argument(
        PLUGIN,
        action="append",
        default=[],
        metavar="FILE",
        help="Python file with components, or a wheel that comes before others; may be repeated",
    )
    parser.add_argument(
        NO_PLUGIN,
        action="append",
        default=argparse.SUPPRESS,
        metavar="NAME",
        help="leave a plugin out: a wheel, wheel:name or kind:name; may be repeated",
    )
    parser.add_argument(
        OPTION,
        action="store_true",
        default=argparse.SUPPRESS,
        help=f"the recipe starts and loads nothing, and writes below this folder only, or below {OPTION}=FOLDER",
    )
    verb = component()
    verb.add_arguments(parser)
    parser.set_defaults(run=verb.run)


def _help_line(sentence: str) -> str:
    """Return a sentence as the list of verbs has it: ``Train a network.`` is ``train a network``."""
    text = sentence.removesuffix(".")
    return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"


def _unknown(word: str, error: MissingPluginError, known: Sequence[str]) -> str:
    install = [line for line in (error.hint or "").splitlines() if line.startswith("pip install ")]
    if install:
        more = error.message.removeprefix(f"no verb named '{word}'")
        return f"there is no verb '{word}'{more} {install[0]}"
    return f"there is no verb '{word}'{did_you_mean(word, known)}; see cntk --help"
