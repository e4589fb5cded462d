"""Make the files of a release, and try them as a stranger would: ``python tools/release.py STEP [--python 3.11 ...]``.

    version 0.2.0   write the version into all wheels, and the changes into CHANGELOG.md; commit that, then
    build           the source distributions and wheels, into dist/
    check           pages, licences, addresses, classifiers of these files, and twine's opinion
    same            build all of it again, and compare the bytes
    alone           install each wheel in an environment of its own, for each Python
    together        install all of them, for each Python; README's first program, the demo, the contract tests
    bill            the bill of materials (CycloneDX), of what is installed together
    all             from build to bill

All wheels have one version. What is built is the working tree, with the time of the last commit; each wheel is built
from its source distribution. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from releasing.bill import write_bill
from releasing.building import build, differences, digests
from releasing.checking import problems
from releasing.fresh import Environment, pythons
from releasing.staging import ReleaseError, stage, when
from releasing.trying import run_contracts, together, try_alone
from releasing.versions import set_version
from wheel_metadata import PYTHONS
from wheel_projects import find_wheels

ROOT = Path(__file__).resolve().parents[1]


class Release:
    """The steps, one after the other.

    Args:
        root: the repository.
        versions: of Python, with which wheels are installed, or paths of interpreters.
        only: names of wheels; all if there are none.
    """

    def __init__(self, root: Path, versions: Sequence[str] = PYTHONS, only: Sequence[str] = ()) -> None:
        self.root = root
        self.all_wheels = find_wheels(root)
        self.wheels = [wheel for wheel in self.all_wheels if not only or wheel.name in only]
        self.home: str = self.all_wheels[0].settings["home"]
        self.version = self.all_wheels[0].version
        self.work = root / "build/release"
        self.dist = root / "dist"
        self.versions = versions

    def files(self, *patterns: str) -> list[Path]:
        """The files that were built.

        Raises:
            ReleaseError: there are none.
        """
        found = sorted(path for pattern in patterns or ("*.whl", "*.tar.gz") for path in self.dist.glob(pattern))
        if not found:
            raise ReleaseError("dist/ is empty: python tools/release.py build")
        return found

    def set_version(self, version: str) -> None:
        """Write a version into all wheels, and the changes into the changelog."""
        changed = set_version(self.root, [wheel.project for wheel in self.all_wheels], version)
        print(f"{len(changed)} files have the version {version}")
        subprocess.run([sys.executable, str(self.root / "tools/wheels.py")], check=True)
        command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", version]
        subprocess.run(command, cwd=self.root, check=True)

    def build(self) -> None:
        """Build everything into an empty folder."""
        for old in [*self.dist.glob("*.whl"), *self.dist.glob("*.tar.gz"), *self.dist.glob("*.json")]:
            old.unlink()
        made = self._build(self.dist)
        print(f"{len(made)} files in {self.dist.relative_to(self.root)}/")
        lines = [f"{digest}  {name}\n" for name, digest in digests(made).items()]
        (self.work / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")

    def _build(self, into: Path) -> list[Path]:
        source = self.work / "source"
        stage(self.root, source, [wheel.folder for wheel in self.all_wheels], self.home, self.version)
        return build(source, [wheel.folder for wheel in self.wheels], into, when(self.root))

    def check(self) -> None:
        """Look at what was built."""
        licence = (self.root / "LICENSE").read_text(encoding="utf-8")
        _fail_if(problems(self.files(), self.home, licence))

    def same(self) -> None:
        """Build again, elsewhere."""
        again = self.work / "again"
        for old in again.glob("*"):
            old.unlink()
        names = differences(self.files(), self._build(again))
        _fail_if([f"{name}: built twice, it has other bytes" for name in names])

    def alone(self) -> None:
        """Install each wheel alone."""
        for version, python in self._pythons().items():
            with _timed(f"alone, Python {version}"):
                _fail_if(try_alone(self.wheels, python, self.dist, self.work / f"alone-{version}"))

    def together(self) -> None:
        """Install all of them, and run what can be run."""
        for version, python in self._pythons().items():
            with _timed(f"together, Python {version}"):
                environment = together(self.version, python, self.dist, self.work / f"together-{version}")
                _fail_if(run_contracts(self.files("*.tar.gz"), environment, self.work / f"contracts-{version}"))

    def bill(self) -> None:
        """Write the bill of materials of the environment with everything, of the first Python."""
        version, python = next(iter(self._pythons().items()))
        environment = Environment(self.work / f"bill-{version}", python, self.dist)
        environment.install(f"cntk-toolkit[all]=={self.version}")
        count = write_bill(environment.python, self.dist / "sbom.cdx.json", when(self.root))
        print(f"{count} components")

    def _pythons(self) -> dict[str, str]:
        found = pythons(self.versions)
        if missing := [one for one in self.versions if one not in (*found, *found.values())]:
            print(f"not here, and so not tried: Python {', '.join(missing)}")
        if not found:
            raise ReleaseError(f"none of Python {', '.join(self.versions)} is here")
        return found


def _fail_if(found: Sequence[str]) -> None:
    if found:
        raise ReleaseError("\n".join(found))


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"== {what}", flush=True)
    yield
    print(f"== {what}: {time.monotonic() - began:.0f} s", flush=True)


STEPS = ("build", "check", "same", "alone", "together", "bill")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["version", *STEPS, "all"])
    parser.add_argument("version", nargs="?", help="for the step of this name")
    parser.add_argument(
        "--python", action="append", metavar="VERSION", help="or a path; instead of all that are supported"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WHEEL", help="wheels to build and install alone"
    )
    options = parser.parse_args(arguments)
    if (options.version is not None) != (options.step == "version"):
        parser.error("a version belongs to the step 'version', and to no other")
    try:
        release = Release(root, options.python or PYTHONS, options.only)
        if options.step == "version":
            release.set_version(options.version)
            return 0
        steps: dict[str, Callable[[], None]] = {name: getattr(release, name) for name in STEPS}
        for name in STEPS if options.step == "all" else [options.step]:
            with _timed(name):
                steps[name]()
    except ReleaseError as error:
        print(f"tools/release.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
