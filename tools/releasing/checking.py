"""What is looked at in the files of a release before anybody installs them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

LABELS = ("Homepage", "Documentation", "Source", "Issues", "Changelog")
_RELATIVE = re.compile(r"\]\((?![a-z][a-z0-9+.-]*:|#|//)([^)\s]+)")


def problems(files: Sequence[Path], home: str, licence: str) -> list[str]:
    """Everything that is wrong with wheels and source distributions.

    Args:
        files: of the release.
        home: the address of the project, where all links of the metadata have to lead.
        licence: the text of the licence.
    """
    found = []
    for file in files:
        metadata, licences = _read(file)
        found += [f"{file.name}: {said}" for said in [*_metadata_problems(metadata, home)]]
        if licences != [licence]:
            found.append(f"{file.name}: has not the text of the licence, once")
    return [*found, *_twine(files)]


def _read(file: Path) -> tuple[Message, list[str]]:
    """The metadata of a file, and the texts of its licences."""
    if file.suffix == ".whl":
        with ZipFile(file) as wheel:
            texts = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" in name}
    else:
        with tarfile.open(file) as archive:
            members = [one for one in archive.getmembers() if one.isfile() and one.name.count("/") == 1]
            texts = {one.name: opened.read() for one in members if (opened := archive.extractfile(one))}
    licences = [text.decode() for name, text in texts.items() if name.endswith("/LICENSE")]
    (said,) = (text for name, text in texts.items() if name.endswith(("/METADATA", "/PKG-INFO")))
    return Parser().parsestr(said.decode()), licences


def _metadata_problems(metadata: Message, home: str) -> Iterator[str]:
    from trove_classifiers import classifiers

    for key in ("Name", "Version", "Summary", "License-Expression", "License-File", "Keywords", "Requires-Python"):
        if not metadata.get(key):
            yield f"its metadata have no {key}"
    if metadata.get("Description-Content-Type") != "text/markdown":
        yield "its page is not said to be Markdown"
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    for label in LABELS:
        if not urls.get(label, "").startswith(home):
            yield f"its address '{label}' does not begin with {home}"
    for classifier in metadata.get_all("Classifier", []):
        if classifier not in classifiers:
            yield f"no index knows the classifier '{classifier}'"
    for link in _RELATIVE.findall(str(metadata.get_payload())):
        yield f"its page links to {link}, which is nowhere on an index"


def _twine(files: Sequence[Path]) -> list[str]:
    """What ``twine check --strict`` says of the pages, if it is not content."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    return [f"twine check --strict:\n{done.stdout}{done.stderr}"] if done.returncode else []
