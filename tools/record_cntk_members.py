"""Record which members the classes of CNTK 2.7's Python have: ``python tools/record_cntk_members.py PYTHON``.

PYTHON is an interpreter that has CNTK 2.7 (``import cntk``), as published: Python 3.6, on the processor. It is
third-party software and no part of this project; the names of its members, and of what its methods take, are all that
is kept, in ``data/members.txt`` beside the tests of the wheel, which has them, or says why it has not.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "plugins/frontends/cntk/tests/data"

PROGRAM = """
import importlib, inspect, sys, warnings
warnings.simplefilter("ignore")
classes = {}
for module in sys.argv[1:]:
    found = importlib.import_module(module)
    for name in sorted(dir(found)):
        each = getattr(found, name)
        if not name.startswith("_") and inspect.isclass(each) and each.__module__.split(".")[0] == "cntk":
            classes.setdefault(each, module + "." + name)

def told(each):
    shown = "<object>" if repr(each.default)[0] == "<" else repr(each.default)
    default = "" if each.default is each.empty else "=" + shown
    return {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name + default

# Operators of Python 2, what SWIG needs itself, and what every class has.
ours = set(dir(object)) | set(dir(type)) | {"this", "thisown", "__module__", "__dict__", "__weakref__", "__div__",
    "__rdiv__", "__del__", "__disown__", "__getattr__", "__members__", "__swig_destroy__", "__swig_getmethods__",
    "__swig_setmethods__"}
for each, path in sorted(classes.items(), key=lambda pair: pair[1]):
    for name in sorted(dir(each)):
        if name in ours or (issubclass(each, dict) and name in dir(dict)) or (name[0] == "_" and name[:2] != "__"):
            continue
        given = inspect.getattr_static(each, name)
        given = getattr(given, "__func__", given)
        takes = ""
        if callable(given) and not inspect.isclass(given):
            try:
                takes = "(" + ", ".join(told(one) for one in inspect.signature(given).parameters.values()) + ")"
            except ValueError:
                takes = "(*args)"
        print("MEMBER " + path + "." + name + takes)
"""


def main(arguments: list[str]) -> int:
    """Ask the interpreter that is named, and write the file."""
    names = (DATA / "names.txt").read_text().splitlines()
    modules = sorted({line.partition("(")[0].rpartition(".")[0] for line in names})
    done = subprocess.run([arguments[0], "-c", PROGRAM, *modules], capture_output=True, text=True, check=True)
    found = [line[7:] for line in done.stdout.splitlines() if line.startswith("MEMBER ")]
    (DATA / "members.txt").write_text("".join(f"{line}\n" for line in found))
    print(f"{len(found)} members")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
