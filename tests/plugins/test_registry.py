"""Names, the three states, and the texts that people get about them."""

from __future__ import annotations

import sys

import attrs
import pytest

from cntk_core.contract.reader import DataReader
from cntk_core.errors import (
    AmbiguousPluginError,
    BrokenPluginError,
    IncompatiblePluginError,
    Location,
    MissingPluginError,
    PluginUnavailableError,
)
from cntk_core.plugins.known import Wheel, known
from cntk_core.plugins.manager import PluginManager

WHERE = Location("mnist.cntk", 12, 3)


class Reader(DataReader):
    requires_api = "1.0"
    streams = ()

    def minibatches(self, epoch):
        return iter(())


@pytest.fixture
def registry(site):
    return PluginManager().registry


def text_of(error_type, call):
    with pytest.raises(error_type) as caught:
        call()
    return str(caught.value)


def test_a_name_that_is_not_installed(registry):
    assert text_of(MissingPluginError, lambda: registry.readers.get("MNISTReader", WHERE)) == (
        "mnist.cntk:12:3: no reader named 'MNISTReader'. It lives in cntk-reader-mnist:\n"
        "    pip install cntk-reader-mnist\n"
        "    no reader is installed"
    )


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            "readers",
            "CNTKTextFormatReader CNTKBinaryReader ImageReader HTKMLFReader HTKDeserializers UCIFastReader "
            "BinaryReader LMSequenceReader LUSequenceReader SparsePCReader LibSVMBinaryReader DSSMReader KaldiReader "
            "Kaldi2Reader",
        ),
        ("writers", "HTKMLFWriter LMSequenceWriter LUSequenceWriter BinaryWriter"),
    ],
)
def test_no_other_name_is_suggested_for_one_of_the_original(registry, kind, names):
    """Each has a wheel of its own: what is only called alike reads another format."""
    for name in names.split():
        text = text_of(MissingPluginError, lambda name=name: getattr(registry, kind).get(name, WHERE))
        assert f"no {kind[:-1]} named '{name}'. It lives in cntk-reader-" in text
        assert "did you mean" not in text


def test_a_name_that_is_not_released(registry, monkeypatch):
    monkeypatch.setitem(known("cntk.engines"), "tpu", ("tpu", Wheel("cntk-engine-tpu", released=False)))
    assert text_of(MissingPluginError, lambda: registry.engines.get("tpu")) == (
        "no engine named 'tpu'. It will live in cntk-engine-tpu, which is not released yet.\n    no engine is installed"
    )


def test_a_misspelt_name_of_an_installed_plugin(registry):
    registry.readers.add("WavReader", Reader)
    assert text_of(MissingPluginError, lambda: registry.readers.get("WavRaeder")) == (
        "no reader named 'WavRaeder'; did you mean 'WavReader'?\n    installed readers: WavReader (this program)"
    )


def test_a_misspelt_name_of_ours(registry):
    assert text_of(MissingPluginError, lambda: registry.readers.get("MNISTReadr")) == (
        "no reader named 'MNISTReadr'; did you mean 'MNISTReader'? It lives in cntk-reader-mnist:\n"
        "    pip install cntk-reader-mnist\n"
        "    no reader is installed"
    )


def test_an_unknown_name(registry):
    assert text_of(MissingPluginError, lambda: registry.learners.get("zzz")) == (
        "no learner named 'zzz'\n    no learner is installed"
    )


def test_what_is_installed_is_listed_by_wheel(install):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader", "mp3": "cntk_reader_wav:Reader"}})
    registry = PluginManager().registry
    assert text_of(MissingPluginError, lambda: registry.readers.get("qqq")) == (
        "no reader named 'qqq'\n    installed readers: mp3, wav (cntk-reader-wav 0.1.0)"
    )


def test_names_are_found_without_import_and_without_case(install):
    install("cntk-reader-wav", {"cntk.readers": {"WavReader": "cntk_reader_wav:Reader"}})
    registry = PluginManager().registry
    assert registry.readers.names() == ("WavReader",)
    assert "wavreader" in registry.readers
    assert "cntk_reader_wav" not in sys.modules
    assert registry.readers.get("WAVREADER").__name__ == "Reader"
    assert "cntk_reader_wav" in sys.modules


def test_a_broken_wheel(install):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, "import missing_library\n")
    registry = PluginManager().registry
    assert text_of(BrokenPluginError, lambda: registry.readers.get("wav", WHERE)) == (
        "mnist.cntk:12:3: reader 'wav' from cntk-reader-wav 0.1.0 could not be imported: "
        "No module named 'missing_library'\n"
        "    raised by site/cntk_reader_wav.py:1: ModuleNotFoundError\n"
        "    Install what it needs (pip install missing_library), or remove it: pip uninstall cntk-reader-wav"
    )


def test_a_wheel_that_raises(install):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}}, "x = 1\nx / 0\n")
    with pytest.raises(BrokenPluginError) as caught:
        PluginManager().registry.readers.get("wav")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert str(caught.value) == (
        "reader 'wav' from cntk-reader-wav 0.1.0 could not be imported: division by zero\n"
        "    raised by site/cntk_reader_wav.py:2: ZeroDivisionError\n"
        "    Mend it, or remove it: pip uninstall cntk-reader-wav"
    )


def test_a_broken_wheel_does_not_stop_the_others(install):
    install("cntk-reader-bad", {"cntk.readers": {"bad": "cntk_reader_bad:Reader"}}, "import missing_library\n")
    install("cntk-reader-good", {"cntk.readers": {"good": "cntk_reader_good:Reader"}})
    registry = PluginManager().registry
    with pytest.raises(BrokenPluginError):
        registry.readers.get("bad")
    assert registry.readers.get("good").__module__ == "cntk_reader_good"
    assert registry.readers.usable() == ("good",)


def test_damaged_metadata_does_not_stop_the_others(install, site):
    install("cntk-reader-good", {"cntk.readers": {"good": "cntk_reader_good:Reader"}})
    folder = site / "aaa-1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_bytes(b"[cntk.readers]\nno equals sign\n\xff\xfe")
    assert PluginManager().registry.readers.names() == ("good",)


def test_a_class_that_is_missing(install):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:WavReader"}})
    text = text_of(BrokenPluginError, lambda: PluginManager().registry.readers.get("wav"))
    assert text.startswith(
        "reader 'wav' from cntk-reader-wav 0.1.0 could not be imported: "
        "module 'cntk_reader_wav' has no attribute 'WavReader'\n"
    )


def test_a_class_of_another_kind(install):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Engine"}})
    assert text_of(BrokenPluginError, lambda: PluginManager().registry.readers.get("wav")) == (
        "reader 'wav' from cntk-reader-wav 0.1.0 is not a DataReader: cntk_reader_wav:Engine is the class Engine\n"
        "    The entry point must name a subclass of cntk_core.api.DataReader."
    )


def test_a_class_that_is_not_complete(registry):
    registry.readers.add("half", type("Half", (DataReader,), {"requires_api": "1.0"}))
    assert text_of(BrokenPluginError, lambda: registry.readers.get("half")) == (
        "reader 'half' from this program is not complete: Half does not define minibatches, streams"
    )


def test_options_that_are_no_attrs_class(registry):
    registry.readers.add("odd", type("Odd", (Reader,), {"options": dict}))
    assert text_of(BrokenPluginError, lambda: registry.readers.get("odd")) == (
        "reader 'odd' from this program has no usable options: <class 'dict'> is not an attrs class\n"
        "    Decorate it with @attrs.frozen or @options."
    )


def test_usable_ones_without_what_is_ambiguous_broken_or_away(install):
    for wheel in ("a-wheel", "b-wheel"):
        install(wheel, {"cntk.engines": {"both": f"{wheel.replace('-', '_')}:Engine"}})
    install("c-wheel", {"cntk.engines": {"far": "c_wheel:Away", "near": "c_wheel:Engine"}})
    install("d-wheel", {"cntk.engines": {"bad": "d_wheel:Engine", "zed": "c_wheel:Engine"}}, "import missing_library")
    assert PluginManager().registry.engines.usable() == ("near", "zed")


def test_unavailable(install):
    install("cntk-engine-far", {"cntk.engines": {"far": "cntk_engine_far:Away"}})
    assert text_of(PluginUnavailableError, lambda: PluginManager().engine("far", WHERE)) == (
        "mnist.cntk:12:3: engine 'far' is installed but cannot run here: no device\n    Use engine = \"cpu\"."
    )


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.1", "Upgrade the core: pip install --upgrade cntk-core"),
        ("2.0", "Upgrade the core: pip install --upgrade cntk-core"),
        ("0.9", "Upgrade the plugin: pip install --upgrade cntk-reader-wav"),
    ],
)
def test_another_version_of_the_interface(install, version, text):
    module = f"from cntk_reader_base import Reader\nclass Mine(Reader):\n    requires_api = '{version}'\n"
    install("cntk-reader-base", {})
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Mine"}}, module)
    assert text_of(IncompatiblePluginError, lambda: PluginManager().registry.readers.get("wav")) == (
        f"reader 'wav' from cntk-reader-wav 0.1.0 needs plugin interface {version}, but cntk-core 0.1.0 has 1.0\n"
        f"    {text}"
    )


def test_no_version_of_the_interface(install):
    install("cntk-reader-base", {})
    module = "from cntk_reader_base import Reader\nclass Mine(Reader):\n    requires_api = None\n"
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Mine"}}, module)
    assert text_of(BrokenPluginError, lambda: PluginManager().registry.readers.get("wav")) == (
        "reader 'wav' from cntk-reader-wav 0.1.0 does not say which plugin interface it needs (requires_api is None)\n"
        '    Write requires_api = "1.0" into the class Mine.'
    )


class TestAmbiguity:
    @pytest.fixture
    def readers(self, install):
        for name in ("cntk-reader-one", "cntk-reader-two"):
            install(name, {"cntk.readers": {"wav": f"{name.replace('-', '_')}:Reader"}})
        return PluginManager().registry.readers

    def test_it_is_an_error_only_when_asked_for(self, readers):
        assert readers.names() == ("wav",)
        assert text_of(AmbiguousPluginError, lambda: readers.get("wav", WHERE)) == (
            "mnist.cntk:12:3: reader 'wav' is offered by cntk-reader-one 0.1.0 and cntk-reader-two 0.1.0\n"
            "    Write which one you mean: 'cntk-reader-one:wav' or 'cntk-reader-two:wav', or leave the other out: "
            "--no-plugin cntk-reader-two"
        )

    def test_one_wheel_that_offers_a_name_twice(self, install):
        install("cntk-reader-one", {"cntk.readers": {"wav": "cntk_reader_one:Reader", "WAV": "cntk_reader_one:Other"}})
        table = PluginManager().registry.readers
        assert text_of(BrokenPluginError, lambda: table.get("wav", WHERE)) == (
            "mnist.cntk:12:3: reader 'wav' from cntk-reader-one 0.1.0 is offered twice, "
            "as cntk_reader_one:Reader and cntk_reader_one:Other"
        )

    def test_the_wheel_says_which(self, readers):
        assert readers.get("cntk-reader-two:wav").__module__ == "cntk_reader_two"
        assert readers.get("CNTK_Reader_One:WAV").__module__ == "cntk_reader_one"


def test_off(install, monkeypatch):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}})
    monkeypatch.setenv("CNTK_PLUGINS", "off")
    assert text_of(MissingPluginError, lambda: PluginManager().registry.readers.get("wav")) == (
        "no reader named 'wav'\n"
        "    no reader is installed\n"
        "    CNTK_PLUGINS=off: plugins of installed wheels are not looked for"
    )


def test_a_list_of_wheels(install, monkeypatch):
    for name in ("cntk-reader-one", "cntk-reader-two"):
        install(name, {"cntk.readers": {name[-3:]: f"{name.replace('-', '_')}:Reader"}})
    monkeypatch.setenv("CNTK_PLUGINS", "cntk_reader_two, cntk-engine-cpu")
    assert text_of(MissingPluginError, lambda: PluginManager().registry.readers.get("one")) == (
        "no reader named 'one'\n"
        "    installed readers: two (cntk-reader-two 0.1.0)\n"
        "    CNTK_PLUGINS limits plugins to the wheels cntk_reader_two, cntk-engine-cpu"
    )


@pytest.mark.parametrize(
    ("group", "name", "spelt", "line"),
    [
        ("cntk.engines", "cuda", "cuda", 'pip install "cntk-engine-cuda[cuda13]"'),
        ("cntk.learners", "rmsprop", "rmsProp", "pip install cntk-learner-rmsprop"),
        ("cntk.parallelizers", "modelaveragingsgd", "ModelAveragingSGD", "pip install cntk-parallel-bmuf"),
    ],
)
def test_known_wheels(group, name, spelt, line):
    found, wheel = known(group)[name]
    assert (found, wheel.pip_line, wheel.released) == (spelt, line, True)


def test_nothing_is_known_of_a_group_of_others():
    assert known("strangers.things") == {}


def test_options_of_a_component_are_attrs():
    assert attrs.has(Reader.options)
