"""The block of the builder: load, run, files, seeds, the list of nodes."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_ndl import NDLNetworkBuilder

from cntk_core.api import BuildContext, CntkError, NetworkBuilder, Op, core_ops
from cntk_core.api.builders import Random, SeedNumbers, initialize_parameters, parse_text

NET = "net=[ x=Input(4,tag=feature) ; h=M(x) ]"
MACRO = "M(a) { s=Sigmoid(a) }"


def test_it_is_a_builder() -> None:
    assert issubclass(NDLNetworkBuilder, NetworkBuilder)


@pytest.mark.parametrize(
    "text",
    [
        f"NDLNetworkBuilder=[ load=m ; run=net ; m=[ {MACRO} ] ; {NET} ]",
        f"NDLNetworkBuilder=[ run=m:net ; m=[ {MACRO} ] ; {NET} ]",
        f"NDLNetworkBuilder=[ load=other:m ; run=net ; other=[ T(a) {{ s=Tanh(a) }} ] ; m=[ {MACRO} ] ; {NET} ]",
        f"run=net\n{NET}\nm=[ {MACRO} ]\nload=m\nNDLNetworkBuilder=[ deviceId=auto ]",
        f"size=4\nNDLNetworkBuilder=[ load=m ; run=net ; m=[ {MACRO} ] ; {NET.replace('4', '$size$')} ]",
        "run=NDLNetworkBuilder\nNDLNetworkBuilder=[\nM(a)=Sigmoid(a)\nx=Input(4,tag=feature)\nh=M(x)\n]",
    ],
)
def test_sections(recipe, text: str) -> None:
    made = recipe(text)
    assert [(node.name.partition(".")[0], node.op.name) for node in made] == [("x", "InputValue"), ("h", "Sigmoid")]


FILE = f"load=m\nrun=net\nm=[\n{MACRO}\n]\n{NET}\nother=[ y=Input($width$,tag=feature) ]\n"


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ("", ["x", "h.s"]),
        ("run=other\nwidth=3", ["y"]),
    ],
)
def test_files_with_sections(recipe, shipped, tmp_path, more: str, names: list[str]) -> None:
    shipped("net.ndl", FILE)
    text = f"width=2\nNDLNetworkBuilder=[\nnetworkDescription=net.ndl\n{more}\n]"
    assert [node.name for node in recipe(text, directory=tmp_path)] == names


def test_a_file_without_sections(recipe, shipped, tmp_path) -> None:
    shipped("net.ndl", f"# a network\n{MACRO}\nx=Input(4, tag=feature) # in\nh=M(x)\n")
    made = recipe("NDLNetworkBuilder=[ networkDescription=net.ndl ]", directory=tmp_path)
    assert [node.name for node in made] == ["x", "h.s"]
    assert str(made["h.s"].where) == f"{tmp_path / 'net.ndl'}:2:10"


def test_macro_files(recipe, shipped, tmp_path) -> None:
    shipped("a.ndl", f"{MACRO}\nlost=Input(3)")
    shipped("b.ndl", "load=m\nm=[ T(a)=Tanh(M(a)) ]\nn=[ U(a)=Tanh(a) ]")
    made = recipe(
        "NDLNetworkBuilder=[ ndlMacros=a.ndl+b.ndl ; run=net ; net=[ x=Input(4,tag=feature) ; h=T(x) ] ]",
        directory=tmp_path,
    )
    assert [node.op.name for node in made] == ["InputValue", "Tanh", "Sigmoid"]


def test_precision(net) -> None:
    assert net("p=Parameter(2,3)", dtype=np.dtype(np.float64)).dtype == np.float64


def test_seeds(recipe) -> None:
    text = "x=Input(3,tag=feature)\na=Parameter(2,3)\nb=Parameter(2,3)\nc=Parameter(2,3,randomSeed=1)"

    def values(offset: int, base: int) -> list[list[float]]:
        made = recipe(f"NDLNetworkBuilder=[ run=n ; randomSeedOffset={offset} ; n=[\n{text}\n] ]", random_seed=base)
        made.infer()
        initialize_parameters(made)
        return [parameter.value.ravel().tolist() for parameter in made.parameters]

    first, second, forced = values(0, 0)
    assert first != second
    assert forced == first
    assert values(1, 0)[0] == second
    assert values(0, 1)[0] == second


def test_statements_are_numbered_like_in_the_original(recipe) -> None:
    """Statements in their order, those of macros where they are called; not what stands inside of other calls."""
    text = """layer(x, n) = [ W=Parameter(n, 3) ; h=Times(W, x) ]
        x=Input(3, tag=feature)
        z=Plus(y, Times(Parameter(3, 3), x))
        y=layer(x, 3)
        f=Parameter(3, randomSeed=9)
        b=Parameter(3, init=gaussian)
        c=Parameter(3, init=fixedValue)"""
    seeds = SeedNumbers()
    made = recipe(f"NDLNetworkBuilder=[ run=n ; n=[\n{text}\n] ]", seeds=seeds)
    found = {node.name: node.initializer.seed for node in made.parameters if isinstance(node.initializer, Random)}
    inner = next(name for name in found if name not in ("y.W", "b", "f"))
    assert found == {"y.W": 1, "f": 9, "b": 2, inner: 2**31 + 1}
    again = recipe("NDLNetworkBuilder=[ run=n ; n=[ x=Input(3,tag=feature) ; v=Parameter(3) ] ]", seeds=seeds)
    assert again["v"].initializer == Random("uniform", seed=3)


def test_list_of_nodes(recipe, tmp_path) -> None:
    recipe(
        """NDLNetworkBuilder=[ run=n ; dumpFileName="out/deep/nodes.txt" ; n=[
            x=Input(4,tag=feature)
            W=Parameter(3,4,learningRateMultiplier=0)
            z=Times(W,x)
        ] ]""",
        directory=tmp_path,
    )
    assert (tmp_path / "out" / "deep" / "nodes.txt").read_text() == (
        "\nx=InputValue\n"
        "\nW=LearnableParameter [3,4]  learningRateMultiplier=0.000000  NeedsGradient=false\n"
        "\nz=Times(W,x)\n"
    )


def test_ops_of_plugins() -> None:
    """An op that nobody here has heard of: its options become attributes."""
    import attrs

    @attrs.frozen
    class Settings:
        scale_factor: float = 1.0
        how_many: int = 2
        loud: bool = False
        style: str = "plain"

    op = Op("Wobble", (1, 2), lambda shapes, attributes: shapes[0], attributes=Settings)
    context = BuildContext(
        find_op=lambda language, name: op if name.lower() == "wobble" else core_ops().find(language, name),
        op_names=lambda language: ("Wobble",),
    )
    text = 'k=3\nw=Wobble(v, scaleFactor=0.5, howMany=k, LOUD=true, style="a b")\nv=Input(3)\nOutputNodes=(w)'
    block = parse_text(f"B=[ run=n ; n=[\n{text}\nFeatureNodes=(v)\n] ]").own("B")
    made = NDLNetworkBuilder().build(block, context)
    assert made["w"].attributes == Settings(0.5, 3, True, "a b")
    block = parse_text("B=[ run=n ; n=[ w=Wobble(w, howMan=1) ] ]", file="r.cntk").own("B")
    with pytest.raises(CntkError) as error:
        NDLNetworkBuilder().build(block, context)
    assert str(error.value) == (
        "r.cntk:1:29: Wobble has no optional argument 'howMan'; did you mean 'howMany'?\n"
        "    Optional arguments: scaleFactor, howMany, loud, style, tag"
    )
