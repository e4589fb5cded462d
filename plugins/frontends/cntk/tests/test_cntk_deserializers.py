"""Deserializers: the block of a recipe that each is, and what each refuses."""

from __future__ import annotations

import re

import pytest
from cntk.io import (
    Base64ImageDeserializer,
    CBFDeserializer,
    CTFDeserializer,
    HTKFeatureDeserializer,
    HTKMLFDeserializer,
    ImageDeserializer,
    StreamDef,
    StreamDefs,
)
from cntk.io._deserializers import block_text

FEATURES = {"shape": 33, "scp": "list.scp"}
LIST = 'scpFile="list.scp" ; dim=33'
SCALE = {"type": "Scale", "width": 4, "height": 4, "interpolations": "linear"}


@pytest.mark.parametrize(
    ("made", "block"),
    [
        (
            lambda: CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(field="f", shape=3, is_sparse=True))),
            '[ type="CNTKTextFormatDeserializer" ; file="a.ctf" ; '
            'input=[ x=[ dim=3 ; format="sparse" ; definesMBSize=false ; alias="f" ] ] ]',
        ),
        (
            lambda: CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(field="f", shape=3, defines_mb_size=True))),
            '[ type="CNTKTextFormatDeserializer" ; file="a.ctf" ; '
            'input=[ x=[ dim=3 ; format="dense" ; definesMBSize=true ; alias="f" ] ] ]',
        ),
        (lambda: CBFDeserializer("a.cbf"), '[ type="CNTKBinaryFormatDeserializer" ; file="a.cbf" ]'),
        (
            lambda: CBFDeserializer("a.cbf", StreamDefs(x=StreamDef(field="f", shape=3), y=StreamDef(shape=2))),
            '[ type="CNTKBinaryFormatDeserializer" ; file="a.cbf" ; input=[ x=[ alias="f" ] ; y=[ alias="y" ] ] ]',
        ),
        (
            lambda: HTKFeatureDeserializer(
                StreamDefs(x=StreamDef(**FEATURES), y=StreamDef(**FEATURES, context=(2, 1)))
            ),
            f'[ type="HTKFeatureDeserializer" ; input=[ x=[ {LIST} ; contextWindow=( 0 : 0 ) ; expandToUtterance=false '
            f"; definesMBSize=false ] ; y=[ {LIST} ; contextWindow=( 2 : 1 ) ; expandToUtterance=false ; "
            "definesMBSize=false ] ] ]",
        ),
        (
            lambda: HTKFeatureDeserializer(StreamDefs(x=StreamDef(**FEATURES, broadcast=True, defines_mb_size=True))),
            '[ type="HTKFeatureDeserializer" ; input=[ '
            'x=[ scpFile="list.scp" ; dim=33 ; contextWindow=( 0 : 0 ) ; expandToUtterance=true ; definesMBSize=true ]'
            " ] ]",
        ),
        (
            lambda: HTKMLFDeserializer("states", StreamDefs(y=StreamDef(shape=9, mlf=["a.mlf"])), phoneBoundaries=True),
            '[ type="HTKMLFDeserializer" ; input=[ y=[ mlfFile="a.mlf" ; labelMappingFile="states" ; labelDim=9 ; '
            "phoneBoundaries=true ] ] ]",
        ),
        (
            lambda: HTKMLFDeserializer("states", StreamDefs(y=StreamDef(shape=9, mlf="a.mlf"))),
            '[ type="HTKMLFDeserializer" ; input=[ y=[ mlfFile="a.mlf" ; labelMappingFile="states" ; labelDim=9 ; '
            "phoneBoundaries=false ] ] ]",
        ),
        (
            lambda: ImageDeserializer(
                "map.txt",
                StreamDefs(y=StreamDef(field="label", shape=5), x=StreamDef(field="image", transforms=[SCALE])),
            ),
            '[ type="ImageDeserializer" ; file="map.txt" ; input=[ x=[ transforms=( '
            '[ type="Scale" ; width=4 ; height=4 ; interpolations="linear" ] : [ type="Transpose" ] ) ] ; '
            "y=[ labelDim=5 ] ] ]",
        ),
    ],
)
def test_the_block_of_a_recipe(made, block):
    assert block_text(made()) == block


def test_images_without_classes():
    block = Base64ImageDeserializer("all.txt", StreamDefs(x=StreamDef(field="image")))
    assert block["type"] == "Base64ImageDeserializer"
    images, labels = block["input"]
    assert images == "x"
    assert re.fullmatch("_ignore_labels_[0-9a-f-]+", labels)
    assert block["input"][labels] == {"labelDim": 2}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(shape=3))),
            "CTFDeserializer: the stream 'x' needs a field, its name in the file",
        ),
        (
            lambda: ImageDeserializer("map.txt", StreamDefs(x=StreamDef(field="picture"))),
            "ImageDeserializer: a stream has the field 'image' or 'label', not 'picture'",
        ),
        (
            lambda: Base64ImageDeserializer("map.txt", StreamDefs(x=StreamDef(field="label", shape=2))),
            "Base64ImageDeserializer: no stream has the field 'image'",
        ),
        (
            lambda: HTKFeatureDeserializer(StreamDefs(x=StreamDef(field="f", shape=3))),
            "HTKFeatureDeserializer: features have no fields",
        ),
        (
            lambda: HTKFeatureDeserializer(StreamDefs(x=StreamDef(shape=3))),
            "HTKFeatureDeserializer: the stream 'x' needs scp, its list of files",
        ),
        (lambda: HTKFeatureDeserializer(StreamDefs()), "HTKFeatureDeserializer: there is no stream"),
        (
            lambda: HTKMLFDeserializer("states", StreamDefs()),
            "HTKMLFDeserializer reads one stream, not 0",
        ),
        (
            lambda: HTKMLFDeserializer("states", StreamDefs(y=StreamDef(field="f", shape=3))),
            "HTKMLFDeserializer: labels have no fields",
        ),
        (
            lambda: HTKMLFDeserializer("states", StreamDefs(y=StreamDef(shape=3))),
            "HTKMLFDeserializer: the stream 'y' needs mlf, its label files",
        ),
        (
            lambda: HTKMLFDeserializer("states", StreamDefs(y=StreamDef(shape=3, mlf=["a", "b"]))),
            "HTKMLFDeserializer reads one label file; put several into one",
        ),
    ],
)
def test_what_is_refused(made, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        made()
