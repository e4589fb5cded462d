"""Exact texts of errors: recipes, map files, base64 files, containers, transforms' files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from image_recipes import deserializer, legacy

from cntk_core.api import CntkError, EpochSpec, ReaderContext
from cntk_core.api.builders import FREE

MEAN = "<opencv_storage><MeanImg><rows>1</rows><cols>{n}</cols><data>{d}</data></MeanImg>{rest}</opencv_storage>"
LINE = "the line must have an image and its class, with a tab between them, and a key before them if you like"
SIZES = "<Channel>3</Channel><Row>1</Row><Col>1</Col>"


def message(make, kind: str, text: str, **context: object) -> str:
    with pytest.raises(CntkError) as found:
        make(kind, text, **context)
    return str(found.value)


def test_files_of_several_transforms_that_are_missing(images: Path, make) -> None:
    text = deserializer("type=Mean ; meanFile=none.xml", "type=Intensity ; intensityFile=no.xml ; intensityStdDev=1")
    found = message(make, "ImageDeserializer", text)
    assert "'none.xml'" in found
    assert "'no.xml'" in found


def test_the_last_image_is_checked_too(images: Path, make) -> None:
    Path("10.png").write_bytes(b"")
    reader = make("ImageDeserializer", deserializer("type=Scale ; width=3 ; height=3 ; channels=3"))
    assert [str(error) for error in reader.check()] == ["map.txt:11: cannot use image '10.png': the file is empty"]


def test_transforms_whose_keys_exclude_each_other(folder: Path, make) -> None:
    found = message(make, "ImageDeserializer", deserializer("type=Crop ; sideRatio=0.5 ; areaRatio=0.5"))
    assert found == "r.cntk:3:63: sideRatio and areaRatio exclude each other\n    Remove one of them."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            legacy("cropTipe=center"),
            "r.cntk:3:46: stream 'features' of reader 'ImageReader' has no option 'cropTipe'; did you mean 'cropType'",
        ),
        (
            legacy("cropType=anywhere"),
            "r.cntk:3:55: features:cropType must be one of the names below, not 'anywhere'\n    Accepted: center, ",
        ),
        (
            legacy("sideRatio=0.9:0.5"),
            "must be a number above 0 and at most 1, or two of them as least:most, not '0.9:0.5'",
        ),
        (
            legacy("sideRatio=0.2:0.5:0.9"),
            "must be a number above 0 and at most 1, or two of them as least:most, not '0.2:0.5:0.9'",
        ),
        (legacy("sideRatio=1.5"), "'sideRatio' must be a number above 0 and at most 1, or two of them as least:most"),
        (legacy("aspectRatio=0"), "'aspectRatio' must be a number above 0 and at most 1, or two of them as least:most"),
        (
            legacy("sideRatio=0.5", "areaRatio=0.5"),
            "r.cntk:3:62: sideRatio and areaRatio exclude each other\n    Remove one of them.",
        ),
        (legacy("cropSize=1:2:3"), "'cropSize' must be one number of pixels, or width:height, not '1:2:3'"),
        (legacy("brightnessRadius=2"), "'brightnessRadius' must be from 0 to 1, not 2"),
        (legacy("intensityStdDev=-1"), "'intensityStdDev' must be at least 0, not -1.0"),
        (legacy("padValue=-2"), "'padValue' must be at least -1, not -2"),
        (legacy().replace("width=5", "width=0"), "'width' must be at least 1, not 0"),
        (legacy().replace("channels=3", "channels=4"), "features:channels must be"),
        (legacy("mbFormat=other"), "features:mbFormat must be"),
        (legacy(top="grayscale=true"), "channels=3, but the images are read as gray"),
        (
            legacy().replace("channels=3", "channels=1\ngrayscale=f").replace("width=5", "width=5"),
            "has no option 'grayscale'",
        ),
        (legacy(top="maxErrors=-1"), "'maxErrors' must be at least 0, not -1"),
        (
            'file="map.txt"\nlabels=[ labelDim=4 ]',
            "reader 'ImageReader' has no block with 'width'\n    Add features=[ width=... ; height=... ; channels=3 ].",
        ),
        (
            'file="map.txt"\nfeatures=[ width=5 ; height=4 ; channels=3 ]',
            "reader 'ImageReader' has no block with 'labelDim'\n    Add labels=[ labelDim=... ].",
        ),
        (
            legacy() + "more=[ labelDim=3 ]",
            "r.cntk:5:1: reader 'ImageReader' has 2 blocks with 'labelDim': labels, more\n    One reader has one",
        ),
        (legacy(labels=0), "'labelDim' must be at least 1, not 0"),
    ],
)
def test_recipes_of_the_reader(images: Path, make, text: str, expected: str) -> None:
    assert expected in message(make, "ImageReader", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            deserializer("type=Crop", "type=Rotate"),
            "stream 'features' of reader 'ImageDeserializer': there is no transform 'Rotate'\n    Transforms: Crop, "
            "Scale, Color, Intensity, Mean, Transpose, Cast",
        ),
        (deserializer("type=Scael"), "there is no transform 'Scael'; did you mean 'Scale'?"),
        (deserializer("width=3"), "a transform of stream 'features' of reader 'ImageDeserializer' needs its type"),
        (
            deserializer("type=Transpose", "type=Crop"),
            "stream 'features' of reader 'ImageDeserializer': Crop cannot come after Transpose\n    Transpose and Cast "
            "are the last transforms.",
        ),
        (deserializer("type=Cast", "type=Transpose"), "Transpose cannot come after Cast"),
        (
            deserializer("type=Scale ; width=3 ; height=3 ; channels=1"),
            "channels=1, but the images are read in colour\n    Set gray",
        ),
        (
            deserializer("type=Scale ; width=3"),
            "required parameter missing: input:features:transforms[0]:height\n    Add height=... to",
        ),
        (deserializer("type=Crop ; sideRation=1"), "has no option 'sideRation'; did you mean 'sideRatio'?"),
        (
            deserializer().replace("transforms=(  )", "transforms=() ; width=3"),
            "stream 'features' of reader 'ImageDeserializer' has no option 'width'\n    Options: transforms",
        ),
        (
            'file="map.txt"',
            "reader 'ImageDeserializer' needs the key 'input'\n    Add input=[ features=[ transforms=( ... ) ]",
        ),
    ],
)
def test_recipes_of_deserializers(images: Path, make, text: str, expected: str) -> None:
    assert expected in message(make, "ImageDeserializer", text)


def test_all_errors_of_a_recipe_at_once(images: Path, make) -> None:
    text = deserializer("type=Rotate", "type=Crop ; sideRatio=7").replace("labelDim=4", "labelDim=0")
    found = message(make, "ImageDeserializer", text)
    assert "'Rotate'" in found
    assert "'sideRatio'" in found
    assert "'labelDim'" in found
    assert found.endswith("3 problems found")


def test_inputs_of_the_network(images: Path, make) -> None:
    found = message(make, "ImageReader", legacy(), inputs={"features": (3, 5, 5), "labels": (4,)})
    assert found == (
        "r.cntk:3:1: stream 'features' has samples of [5 x 4 x 3], but the network's input 'features' is [5 x 5 x 3]\n"
        "    width, height and channels of Scale must have as many values as the input."
    )
    found = message(make, "ImageReader", legacy(), inputs={"features": (4, FREE, FREE)})
    assert "samples of [5 x 4 x 3], but the network's input 'features' is [? x ? x 4]" in found
    found = message(make, "ImageReader", legacy(), inputs={"labels": (10,)})
    assert found == "r.cntk:3:1: stream 'labels' has labelDim=4, but the network's input 'labels' is [10]"


def test_map_files(images: Path, make) -> None:
    images.write_text("a.png\t0\nb.png\nc.png\tred\nd.png\t4\n\t1\ne.png\t-1\n")
    assert message(make, "ImageReader", legacy()) == (
        f"map.txt:2: {LINE}\n"
        "map.txt:3: the class of image 'c.png' must be a whole number, not 'red'\n"
        "map.txt:4: the class 4 of image 'd.png' is not below labelDim=4\n"
        "    Classes are numbered from 0 to 3.\n"
        f"map.txt:5: {LINE}\n"
        "map.txt:6: the class of image 'e.png' must be a whole number, not '-1'\n"
        "5 problems found"
    )


def test_many_wrong_lines(images: Path, make) -> None:
    images.write_text("a.png\tx\n" * 100)
    found = message(make, "ImageReader", legacy()).splitlines()
    assert len(found) == 22
    assert found[19] == "map.txt:20: the class of image 'a.png' must be a whole number, not 'x'"
    assert found[20] == "map.txt: 80 more lines are wrong"


def test_no_map_file(images: Path, make) -> None:
    images.unlink()
    assert message(make, "ImageReader", legacy()) == (
        "r.cntk:1:1: cannot open map file 'map.txt': no such file or directory\n"
        "    A relative name starts at the directory in which the command runs."
    )
    images.write_bytes(b"\n\n")
    assert message(make, "ImageReader", legacy()) == "map.txt: the file has no images"
    images.write_bytes(b"\xff\xfe\0")
    assert message(make, "ImageReader", legacy()) == "map.txt: the map file is no text in UTF-8"


def test_containers(images: Path, make) -> None:
    with zipfile.ZipFile("a.zip", "w") as container:
        container.writestr("x.png", b"")
    Path("b.zip").write_bytes(b"no zip")
    images.write_text(
        "a.zip@/x.png\t0\na.zip@/y.png\t0\nb.zip@/x.png\t0\nc.zip@/x.png\t1\nc.zip@/y.png\t1\na.zip@/z.png\t0\n"
    )
    assert message(make, "ImageReader", legacy()) == (
        "map.txt:2: the container 'a.zip' has no file 'y.png'\n"
        "map.txt:3: the container 'b.zip' is no zip file: file is not a zip file\n"
        "map.txt:4: cannot open the container 'c.zip': no such file or directory\n"
        "map.txt:6: the container 'a.zip' has no file 'z.png'\n"
        "4 problems found"
    )


def test_base64_files(folder: Path, make) -> None:
    def found() -> str:
        return message(make, "Base64ImageDeserializer", deserializer())

    assert found().startswith("r.cntk:1:1: cannot open base64 file 'map.txt': no such file or directory\n")
    Path("map.txt").write_text("0\tAAAA\n\tAAAA\n9\tAAAA\n0\n")
    assert found() == (
        "map.txt:2: the line must have a class and an image in base64, with a tab between them\n"
        "map.txt:3: the class 9 of image '2' is not below labelDim=4\n"
        "    Classes are numbered from 0 to 3.\n"
        "map.txt:4: the line must have a class and an image in base64, with a tab between them\n"
        "3 problems found"
    )
    Path("map.txt").write_text("a\t0\tAAAA\n1\tAAAA\n")
    assert found() == (
        "map.txt:2: the line must have a key, a class and an image in base64, with tabs between them, as the first line"
    )
    Path("map.txt").write_text("")
    assert found() == "map.txt: the file has no images"


def test_a_broken_image_says_what_helps(images: Path, make) -> None:
    Path("2.png").write_bytes(b"")
    with pytest.raises(CntkError) as found:
        list(make("ImageReader", legacy()).minibatches(EpochSpec(minibatch_size=4)))
    assert str(found.value) == (
        "map.txt:3: cannot use image '2.png': the file is empty\n    maxErrors=1 leaves it out."
    )


def test_an_image_of_another_size(images: Path, make) -> None:
    reader = make("ImageDeserializer", deserializer("type=Crop ; cropSize=7"), inputs={"features": (49 * 3,)})
    with pytest.raises(CntkError) as found:
        list(reader.minibatches(EpochSpec(minibatch_size=4)))
    assert str(found.value).startswith(
        "map.txt:1: cannot use image '0.png': it has 7 x 6 x 3 values after the transforms, and a sample has 147"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "r.cntk:3:46: cannot open file 'm.xml': no such file or directory\n    A relative name starts at"),
        ("<a>", "m.xml:1:4: the file is no XML: no element found"),
        ("<a/>", "m.xml: the file has no <MeanImg>\n    It is an XML file as OpenCV writes it: <opencv_storage> with "),
        (MEAN.format(n=1, d="1 2 3", rest=""), "m.xml: the file has no <Channel>"),
        (MEAN.format(n="x", d="1 2 3", rest=SIZES), "m.xml: <cols> of <MeanImg> must be a whole number, not 'x'"),
        (MEAN.format(n=1, d="1 b 3", rest=SIZES), "m.xml: <data> of <MeanImg> has something that is no number"),
        (MEAN.format(n=2, d="1 2 3", rest=SIZES), "m.xml: <MeanImg> has 3 values, which do not fill 1 x 2"),
        (
            MEAN.format(n=1, d="1 2", rest=SIZES),
            "m.xml: <MeanImg> has 2 values, but Col, Row and Channel are 1 x 1 x 3",
        ),
    ],
)
def test_mean_files(images: Path, make, content: str | None, expected: str) -> None:
    if content is not None:
        Path("m.xml").write_text(content)
    assert message(make, "ImageReader", legacy("meanFile=m.xml")).startswith(expected)


def test_a_mean_of_another_size_is_told(images: Path, make) -> None:
    Path("m.xml").write_text(MEAN.format(n=1, d="1 2 3", rest=SIZES))
    assert make("ImageReader", legacy("meanFile=m.xml")).told == [
        "WARNING: the mean image of 'm.xml' is 1 x 1 x 3, but the images are 5 x 4 x 3: it is not subtracted"
    ]


@pytest.mark.parametrize(
    ("values", "vectors", "expected"),
    [("1 2", "1 " * 9, "<EigVal> must be 1 x 3 numbers, not 1 x 2"), ("1 2 3", "1 " * 6, "<EigVec> must be 3 x 3")],
)
def test_intensity_files(images: Path, make, values: str, vectors: str, expected: str) -> None:
    def matrix(name: str, rows: int, data: str) -> str:
        columns = len(data.split()) // rows
        return f"<{name}><rows>{rows}</rows><cols>{columns}</cols><data>{data}</data></{name}>"

    text = matrix("EigVal", 1, values) + matrix("EigVec", 3, vectors)
    Path("i.xml").write_text(f"<opencv_storage>{text}</opencv_storage>")
    assert message(make, "ImageReader", legacy("intensityFile=i.xml", "intensityStdDev=0.1")).startswith(
        f"i.xml: {expected}"
    )


def test_images_are_not_cut(images: Path, make) -> None:
    part = deserializer("type=Transpose", top="type=ImageDeserializer")
    text = f"deserializers=(\n[\n{part}\n])\ntruncated=true\ntruncationLength=4"
    assert message(make, "Composite", text) == (
        "the stream 'features' has one sample for each sequence, which cannot be cut\n    Leave truncated=true out."
    )


def test_keys_of_older_versions(images: Path, make) -> None:
    """As in CNTK 2.0 they change nothing; here a warning says so."""
    reader = make("ImageReader", legacy("cropRatio=0.5", "aspectRatioRadius=0.2"))
    assert reader.told == [
        "WARNING: r.cntk:3:46: cropRatio is not used, as in CNTK 2.0, which has sideRatio",
        "WARNING: r.cntk:3:62: aspectRatioRadius is not used, as in CNTK 2.0, which has aspectRatio",
    ]


def test_nothing_is_left_open(images: Path, make) -> None:
    """A reader that cannot be made has closed its containers: open files are warnings, and those are errors here."""
    with zipfile.ZipFile("a.zip", "w") as container:
        container.writestr("x.png", b"")
    images.write_text("a.zip@/x.png\t0\n")
    assert message(make, "ImageReader", legacy(), inputs={"features": (1,)})
    assert ReaderContext().inputs == {}
