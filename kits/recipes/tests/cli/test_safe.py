"""``--safe``: a recipe gets out by no door, and what it may do it still does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cntk_core.errors import CntkError, UsageError
from cntk_core.trust import Policy, RefusedError, ask_to_load, ask_to_run, ask_to_write, policy, trusting_nothing
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.cli.safe_words import join_safe, split_safe

RECIPE = """\
command = Train
traceLevel = 0
modelPath = "out/net.dnn"
deviceId = cpu
{top}
Train = [
    action = train
    {network}
    SGD = [ maxEpochs=1 ; minibatchSize=4 ; learningRatesPerSample=0.1 ; {sgd} ]
    reader = [ file="data.ctf" ; input=[ features=[ dim=2 ; format=dense ] ; labels=[ dim=2 ; format=sparse ] ] ]
]
{more}
"""
SIMPLE = "SimpleNetworkBuilder = [ layerSizes=2:2 ; trainingCriterion=CrossEntropyWithSoftmax ]"
NDL = """NDLNetworkBuilder = [ dumpFileName="../dump.txt" ; run = net ; net = [
        features = Input(2) ; labels = Input(2) ; W = Parameter(2, 2) ; z = Times(W, features)
        ce = CrossEntropyWithSoftmax(labels, z) ; FeatureNodes = (features) ; LabelNodes = (labels)
        CriterionNodes = (ce)
    ] ]"""
WITHOUT = "Without --safe a recipe may do all that you may; use that for recipes of people whom you trust."
REMEDY = f"    Name a place below the output folder, or another folder with --safe=FOLDER. {WITHOUT}"


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with data; what is written beside it is outside."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))  # else all of pytest's folders are own ones
    Path("data.ctf").write_text("|features 1 2 |labels 0:1\n|features 2 1 |labels 1:1\n")
    return folder


def write(top: str = "", network: str = SIMPLE, sgd: str = "", more: str = "") -> None:
    Path("r.cntk").write_text(RECIPE.format(top=top, network=network, sgd=sgd, more=more))


def safe(*words: str) -> int:
    return main(["configFile=r.cntk", *(words or ("--safe",))])


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "r.cntk"}


def test_a_recipe_that_keeps_to_its_folder_runs(place, capsys):
    write('stderr="out/log"\ndoneFile="out/done"', sgd='jsonLog="out/log.jsonl"')
    assert safe("--safe=out") == 0
    assert {"out/net.dnn", "out/log", "out/done", "out/log.jsonl"} <= names(place)
    assert names(place.parent) == {"temporary", "work"} | {f"work/{name}" for name in names(place)}
    assert policy() is None


OUTSIDE = {
    "modelPath": ({"top": 'modelPath="../net.dnn"'}, ()),
    "stderr": ({"top": 'stderr="{parent}/log"'}, ()),
    "doneFile": ({"top": 'doneFile="out/../../done"'}, ()),
    "jsonLog": ({"sgd": 'jsonLog="../log.jsonl"'}, ()),
    "dumpFileName": ({"network": NDL}, ()),
    "outputPath": ({"more": 'W = [ action=write ; outputPath="../w" ; reader=[ file=data.ctf ] ]'}, ("command=W",)),
    "outputDotFile": ({"more": 'P = [ action=plot ; outputDotFile="../x.dot" ]'}, ("command=P",)),
    "outputFile": ({"more": 'P = [ action=plot ; outputFile="../x.svg" ]'}, ("command=P",)),
    "newModelPath": (
        {"more": 'B = [ action=bnstat ; newModelPath="../x" ; reader=[ file=data.ctf ] ]'},
        ("command=B",),
    ),
    "outputModelPath": ({"more": f'E = [ action=edit ; outputModelPath="../x" ; {SIMPLE} ]'}, ("command=E",)),
}


@pytest.mark.parametrize("key", OUTSIDE)
def test_no_key_names_a_file_elsewhere(place, capsys, key):
    texts, words = OUTSIDE[key]
    write(**{name: text.replace("{parent}", str(place.parent)) for name, text in texts.items()})
    before = names(place.parent)
    assert safe("--safe", "traceLevel=0", *words) == 1
    said = capsys.readouterr().err
    [line] = [line for line in said.splitlines() if "is not below the output folder" in line]
    assert f"--safe: {key}: '" in line
    assert line.endswith(f"is not below the output folder '{place}'")
    assert ": --safe" in line
    assert "r.cntk:" in line.partition("--safe")[0]
    assert REMEDY in said.splitlines()
    assert names(place.parent) - before <= {"work/out", "work/out/net.dnn.0"}


def test_no_command_is_run(place, capsys):
    write(more='P = [ action=plot ; outputFile=out/x.png ; renderCmd="touch ../owned" ]')
    assert safe("--safe", "command=P") == 1
    said = capsys.readouterr().err
    assert ": --safe: renderCmd would run a command: touch ../owned\n" in said
    assert f"    {WITHOUT}\n" in said
    assert not Path("../owned").exists()


@pytest.mark.parametrize(("key", "name"), [("file", "net.py"), ("module", "net")])
def test_no_python_of_the_recipe_is_loaded(place, capsys, key, name):
    Path("net.py").write_text("open('owned', 'w')\n")
    write(network=f"PythonNetworkBuilder = [ {key}={name} ]")
    assert safe() == 1
    assert f": --safe: {key} would load Python code: {name}\n" in capsys.readouterr().err
    assert not Path("owned").exists()


def test_plugins_of_the_command_line_are_the_users_own(place):
    Path("mine.py").write_text("")
    write()
    assert safe("--safe", "--plugin", "mine.py") in (0, 1)
    Path("mine.py").write_text("from cntk_core.api import hookimpl\n@hookimpl\ndef cntk_job_begin(job): pass\n")
    assert safe("--safe", "--plugin", "mine.py") == 0


def test_a_plugin_that_does_not_ask_is_kept_in_too(place, capsys):
    Path("mine.py").write_text(
        "from cntk_core.api import hookimpl\n"
        "@hookimpl\ndef cntk_job_begin(job):\n    open(job.block.string('mine'), 'w')\n"
        "@hookimpl\ndef cntk_sgd_keys():\n    return ('mine',)\n"
    )
    write(sgd='mine="../owned"')
    assert safe("--safe", "--plugin", "mine.py") == 1
    said = capsys.readouterr().err
    text = f"--safe: '../owned' is not below the output folder '{place}'; it would be written, changed or removed\n"
    assert text in said
    assert not Path("../owned").exists()


def test_a_recipe_cannot_switch_it_off(place, capsys):
    write('safe=false\nmodelPath="../net.dnn"')
    assert safe() == 1
    assert "--safe: modelPath: '../net.dnn' is not below" in capsys.readouterr().err


def test_another_working_folder(place, capsys):
    """Only the command line can name one. What is written is judged by where it really goes; libraries look there."""
    other = place.parent / "other"
    other.mkdir()
    (place / "data.ctf").rename(other / "data.ctf")
    write()
    words = ("--safe", f"currentDirectory={other}")
    assert safe(*words) == 1
    assert f"--safe: modelPath: 'out/net.dnn' is not below the output folder '{place}'\n" in capsys.readouterr().err
    (other / ".numba_config.yaml").write_text("threading_layer: mine\n")
    os.chdir(place)
    assert safe(*words) == 1
    assert f"the folder '{other}' has a file '.numba_config.yaml', which libraries obey\n" in capsys.readouterr().err


def test_links_are_followed(place, capsys):
    (place.parent / "elsewhere").mkdir()
    Path("out").symlink_to("../elsewhere")
    write()
    assert safe() == 1
    assert f"'out/net.dnn', which is '{place.parent}/elsewhere/net.dnn', is not below" in capsys.readouterr().err
    assert not list((place.parent / "elsewhere").iterdir())


def test_links_inside_the_place_of_a_model_are_followed(place, capsys):
    """No key names this folder: the hook sees it."""
    (place.parent / "elsewhere").mkdir()
    Path("out").mkdir()
    Path("out/net.dnn.checkpoints").symlink_to(place.parent / "elsewhere")
    write()
    assert safe() == 1
    assert "is not below the output folder" in capsys.readouterr().err
    assert not list((place.parent / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".bashrc", "is hidden, as files are that other programs obey"),
        (".git/hooks/post-commit", "is hidden, as files are that other programs obey"),
        ("numpy.py", "is a file that Python imports or loads"),
        ("x/native.SO", "is a file that Python imports or loads"),
    ],
)
def test_files_that_others_obey(place, capsys, path, reason):
    write(f'stderr="{path}"')
    assert safe() == 1
    assert f"r.cntk:5:9: --safe: stderr: '{path}' {reason}\n" in capsys.readouterr().err
    assert not Path(path).exists()


def test_a_file_with_another_name_elsewhere(place, capsys):
    (place.parent / "diary").write_text("mine")
    os.link(place.parent / "diary", "log")
    write('stderr="log"')
    assert safe() == 1
    assert "'log' is a file with another name elsewhere (a hard link)" in capsys.readouterr().err
    assert (place.parent / "diary").read_text() == "mine"


def test_the_null_device_may_be_written(place):
    write('stderr="/dev/null"')
    assert safe() == 0


def test_ranks_are_told(place, monkeypatch):
    from cntk_kit_recipes.launch import launcher

    told = {}
    monkeypatch.setattr(launcher, "launch", lambda ranks, words, *more: told.update(words=words, policy=policy()) or 0)
    write()
    assert main(["train", "r.cntk", "--safe=out", "-n", "2"]) == 0
    assert told == {"words": ["train", "r.cntk", f"--safe={place}/out"], "policy": None}


@pytest.mark.parametrize(
    ("do", "what"),
    [
        (lambda out: os.system("true"), "a program would be started: true"),
        (lambda out: subprocess.run([sys.executable, "-c", ""], check=False), "a program would be started: "),
        (lambda out: os.execv("/bin/true", ["true"]), "a program would be started: "),
        (lambda out: os.posix_spawn("/bin/true", ["true"], {}), "a program would be started: "),
        (lambda out: os.open(out / "x", os.O_CREAT), "/x' is not below"),
        (lambda out: (out / "x").mkdir(), "/x' is not below"),
        (lambda out: (out / "there").unlink(), "/there' is not below"),
        (lambda out: (out / "there").rename("here"), "/there' is not below"),
        (lambda out: Path("mine").rename(out / "there"), "/there' is not below"),
        (lambda out: (out / "there").chmod(0o777), "/there' is not below"),
        (lambda out: os.truncate(out / "there", 0), "/there' is not below"),
        (lambda out: os.link("mine", out / "x"), "/x' is not below"),
        (lambda out: (out / "x").symlink_to("/"), "/x' is not below"),
        (lambda out: os.utime(out / "there"), "/there' is not below"),
        (lambda out: os.remove("there", dir_fd=os.open(out, os.O_RDONLY)), "/there' is not below"),
        (lambda out: os.rmdir(out), "elsewhere' is not below"),
    ],
)
def test_what_is_not_asked_for(place, do, what):
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "there").write_text("mine")
    Path("mine").write_text("")
    with trusting_nothing(place), pytest.raises(RefusedError, match=what):
        do(elsewhere)
    assert [path.name for path in elsewhere.iterdir()] == ["there"]
    assert (elsewhere / "there").read_text() == "mine"


def test_what_may_be_done_without_asking(place):
    with trusting_nothing(place / "new") as given:
        assert policy() is given
        (place / "new" / "x").write_text("")
        (place / "new" / "x").rename(place / "new" / "y")
        (place / "new" / "y").unlink()
        Path(tempfile.mkdtemp(), "x").write_text("")  # the program's own
        assert (place / "data.ctf").read_text()
        ask_to_write(place / "new" / "z")
        with pytest.raises(RefusedError):
            ask_to_write(Path(tempfile.gettempdir(), "x"))  # but no recipe's
    ask_to_write("/anywhere")
    ask_to_run("true")
    ask_to_load("os")


def test_no_bytecode_is_written(place):
    before = sys.dont_write_bytecode
    with trusting_nothing(place):
        assert sys.dont_write_bytecode
    assert sys.dont_write_bytecode == before


def test_the_option():
    assert split_safe(["train", "r", "--safe"]) == (["train", "r"], ".")
    assert split_safe(["--safe=a=b", "r"]) == (["r"], "a=b")
    assert split_safe(["r", "--", "--safe"]) == (["r", "--", "--safe"], "")
    assert join_safe("") == []
    with pytest.raises(UsageError) as error:
        split_safe(["r", "--safe="])
    text = "<command line>:2:1: --safe= needs a folder\n    --safe alone means the folder that you are in."
    assert str(error.value) == text
    with pytest.raises(UsageError, match="--safe is there twice"):
        split_safe(["--safe", "--safe=x"])


def test_a_wrong_option_is_a_message(capsys):
    assert main(["train", "r.cntk", "--safe="]) == 2
    assert capsys.readouterr().err.startswith("error: <command line>:3:1: --safe= needs a folder\n")


def test_the_policy_of_the_root_folder():
    assert Policy.of(Path("/")).objection("/anything") == ""
    assert issubclass(RefusedError, CntkError)
