"""What a mistake in a description says: the exact texts."""

from __future__ import annotations

import pytest
from cntk_builder_ndl import expand
from cntk_builder_ndl.parser import parse

from cntk_core.api import CntkError
from cntk_core.api.builders import SourceText

X = "x=Input(4,tag=feature)\n"

CASES = {
    "unknown function": (
        X + "z=Sigmiod(x)",
        "r.cntk:3:3: there is no function or macro 'Sigmiod'; did you mean 'Sigmoid'?",
    ),
    "unknown name": (
        X + "hidden=Tanh(x)\nz=Plus(hiden, x)",
        "r.cntk:4:8: the name 'hiden' is not defined; did you mean 'hidden'?",
    ),
    "unknown member": (
        X + "M(a) { first=Tanh(a) ; last=Tanh(first) }\nm=M(x)\nz=Tanh(m.frst)",
        "r.cntk:5:8: 'm' has no member 'frst'; did you mean 'first'?\n    Members of the macro 'M': a, first, last",
    ),
    "member of a function": (
        X + "z=Tanh(x.W)",
        "r.cntk:3:8: 'x' is not a macro call, so 'x.W' means nothing",
    ),
    "name twice": (
        X + "z=Tanh(x)\nz=Tanh(x)",
        "r.cntk:4:1: the name 'z' is already defined at r.cntk:3:1",
    ),
    "names that differ in case": (
        X + "w=Parameter(3,4)\nW=Parameter(3,4)",
        "r.cntk:4:1: the name 'W' is already defined at r.cntk:3:1, where it is spelt 'w': names ignore case",
    ),
    "name of a function": (
        X + "scale=Tanh(x)",
        "r.cntk:3:1: 'scale' is reserved, the name of a function, and cannot be assigned",
    ),
    "parameter with the name of a function": (
        X + "M(a, input) { z=Tanh(input) }",
        "r.cntk:3:6: a parameter of the macro 'M' cannot be called 'input', which is a function",
    ),
    "macro with the name of a function": (
        X + "Dropout(a) { z=Tanh(a) }",
        "r.cntk:3:1: a macro cannot be called 'Dropout', which is a function",
    ),
    "macro twice": (
        X + "M(a) { z=Tanh(a) }\nm(a)=Sigmoid(a)",
        "r.cntk:4:1: the macro 'm' is already defined at r.cntk:3:1",
    ),
    "macro before its definition": (
        X + "z=M(x)\nM(a) { z=Tanh(a) }",
        "r.cntk:3:3: the macro 'M' is used before it is defined\n    Its definition is at r.cntk:4:1; move it up.",
    ),
    "macro that calls itself": (
        X + "M(a) { z=Tanh(M(a)) }",
        "r.cntk:3:15: the macro 'M' calls itself",
    ),
    "arguments of a macro": (
        X + "M(a, b) { z=Plus(a, b) }\nz=M(x)",
        "r.cntk:4:3: the macro 'M' takes 2 arguments (a, b), not 1\n    It is defined at r.cntk:3:1.",
    ),
    "default of a macro": (
        X + "M(a, b=3) { z=Tanh(a) }",
        "r.cntk:3:6: the parameters of the macro 'M' must be plain names\n    Defaults are not possible.",
    ),
    "parameter twice": (
        X + "M(a, A) { z=Tanh(a) }",
        "r.cntk:3:6: the macro 'M' has two parameters 'A'",
    ),
    "assigned parameter": (
        X + "M(a) { a=Tanh(a) }\nz=M(x)",
        "r.cntk:3:8: the name 'a' is already defined at r.cntk:3:3\n    In the macro 'M', called at r.cntk:4:3.",
    ),
    "empty macro": (
        X + "M(a) { }\nz=Tanh(M(x))",
        "r.cntk:4:8: the macro 'M' is empty and has no value",
    ),
    "number as an input": (
        X + "two=2\nz=Plus(x, two)",
        "r.cntk:4:11: an input of Plus must be a node; 'two' is a number\n    Write Constant(2).",
    ),
    "text as an input": (
        X + 'z=Plus(x, "x")',
        "r.cntk:3:12: an input of Plus must be a node; this is a text",
    ),
    "array as an input": (
        X + "z=Plus(x, {x,x})",
        "r.cntk:3:11: an input of Plus must be a node; this is an array",
    ),
    "number of inputs": (
        X + "z=Plus(x, x, x)\ns=RowSlice(0, x)\nt=Tanh()",
        "r.cntk:3:3: Plus takes 2 arguments, not 3\n"
        "r.cntk:4:3: RowSlice takes 3 arguments, not 2\n    RowSlice(firstRow, rows, x)\n"
        "r.cntk:5:3: Tanh takes 1 argument, not 0\n"
        "3 problems found",
    ),
    "dimension that is no number": (
        X + "W=Parameter(x, 2.5)\nV=Input(0)\nU=Parameter(two, 2)",
        "r.cntk:3:13: a dimension must be a number, not 'x'\n"
        "r.cntk:4:9: a dimension must be a whole number, not 0\n"
        "r.cntk:5:13: the name 'two' is not defined\n"
        "3 problems found",
    ),
    "unknown option behind others": (
        X + "W=Parameter(2, 2, init=uniform, tag=x, initValueScal=3)",
        "r.cntk:3:40: LearnableParameter has no optional argument 'initValueScal'; did you mean 'initValueScale'?\n"
        "    Optional arguments: learningRateMultiplier, needGradient, needsGradient, computeGradient, initOnCPUOnly, "
        "kernelWidth, kernelHeight, randomSeed, init, initValueScale, value, initFromFilePath, tag",
    ),
    "unknown option": (
        X + "W=Parameter(2, 2, initValueScal=3)",
        "r.cntk:3:19: LearnableParameter has no optional argument 'initValueScal'; did you mean 'initValueScale'?\n"
        "    Optional arguments: learningRateMultiplier, needGradient, needsGradient, computeGradient, initOnCPUOnly, "
        "kernelWidth, kernelHeight, randomSeed, init, initValueScale, value, initFromFilePath, tag",
    ),
    "option twice": (
        X + "W=Parameter(2, 2, value=3, VALUE=4)",
        "r.cntk:3:28: 'VALUE' is given twice",
    ),
    "flag": (
        X + "W=Parameter(2, 2, needGradient=maybe)",
        "r.cntk:3:19: 'needGradient' must be true or false, not 'maybe'",
    ),
    "number of an option": (
        X + "W=Parameter(2, 2, value=abc)",
        "r.cntk:3:25: the name 'abc' is not defined",
    ),
    "layout": (
        X + "I=ImageInput(2, 2, 1, imageLayout=CWH)",
        "r.cntk:3:23: 'imageLayout' cannot be 'CWH'; did you mean 'CHW'?\n    Accepted: HWC, legacy, CHW, cudnn",
    ),
    "initializer": (
        X + "W=Parameter(2, 2, init=gausian)",
        "r.cntk:3:19: there is no initializer 'gausian'; did you mean 'gaussian'?\n"
        "    Initializers: bilinear, fixedValue, fromFile, fromLiteral, gaussian, glorotNormal, glorotUniform, "
        "heNormal, heUniform, normal, truncNormal, uniform, uniform1, xavier",
    ),
    "file of initial values": (
        X + "W=Parameter(2, 2, init=fromFile)",
        "r.cntk:3:19: the initializer 'fromFile' needs initFromFilePath",
    ),
    "tag": (
        "x=Input(4, tag=featur)",
        "r.cntk:2:12: there is no tag 'featur'; did you mean 'feature'?\n"
        "    Tags: feature, label, criterion, evaluation, output",
    ),
    "no features": (
        "x=Input(4)",
        "r.cntk:1:19: the network has no feature nodes\n    Add FeatureNodes=(name), or tag=feature to an input.",
    ),
    "member of a group": (
        X + "n=3\nOutputNodes=(x, y, n)",
        "r.cntk:4:17: the name 'y' is not defined\n"
        "r.cntk:4:20: a member of OutputNodes is not a node\n"
        "2 problems found",
    ),
    "alias in a circle": (
        X + "a=b\nb=a\nz=Tanh(a)",
        "r.cntk:4:3: the name 'a' stands for itself",
    ),
    "statement without a name": (
        X + "=Tanh(x)",
        "r.cntk:3:1: a statement begins with a name, not with '='",
    ),
    "call without a name": (
        X + "Tanh(x)",
        "r.cntk:3:1: the call of 'Tanh' has no name and no body\n"
        "    Write name=Tanh(...), or a macro definition Tanh(...) { ... }.",
    ),
    "word": (
        X + "hello",
        "r.cntk:3:1: 'hello' is not followed by '=' or '('\n"
        "    Write name=Function(...), name=value, or Macro(parameters) { ... }.",
    ),
    "value": (
        X + "z=",
        "r.cntk:3:3: a value is missing for 'z'",
    ),
    "missing comma": (
        X + "z=Plus(x x)",
        "r.cntk:3:10: ',' is missing before 'x'",
    ),
    "two values": (
        X + "n=3 4",
        "r.cntk:3:5: unexpected '4' after the value of 'n'\n    A statement ends with a new line, ',' or ';'.",
    ),
    "assigned number": (
        X + "5=Tanh(x)",
        "r.cntk:3:1: '5' is a number and cannot be assigned",
    ),
    "a text for a dimension": (
        X + 'z=Parameter("4", 3)',
        "r.cntk:3:14: a dimension must be a number, not the text \"4\"",
    ),
    "an array for a dimension": (
        X + "z=Parameter({4, 2}, 3)",
        "r.cntk:3:13: a dimension must be a number, not an array",
    ),
    "a call for a dimension": (
        X + "z=Parameter(Tanh(x), 3)",
        "r.cntk:3:13: a dimension must be a number, not a call of Tanh",
    ),
    "a call for a truth value": (
        X + "z=Parameter(4, 3, needGradient=Tanh(x))",
        "r.cntk:3:19: 'needGradient' must be a word, not a call of Tanh",
    ),
    "a macro for a truth value": (
        X + "M(a) { z=Tanh(a) }\nz=Parameter(4, 3, needGradient=M(x))",
        "r.cntk:4:19: 'needGradient' must be a word, not a macro call",
    ),
    "assignment in an array": (
        X + "FeatureNodes=(x, a=3)",
        "r.cntk:3:18: an array cannot hold 'a=...'",
    ),
    "all mistakes of the text at once": (
        X + "z=Plus(x x)\ny=Tanh(x)\n(3)\nn=3 4",
        "r.cntk:3:10: ',' is missing before 'x'\n"
        "r.cntk:5:1: a statement begins with a name, not with '('\n"
        "r.cntk:6:5: unexpected '4' after the value of 'n'\n    A statement ends with a new line, ',' or ';'.\n"
        "3 problems found",
    ),
    "all unknown functions at once": (
        X + "z=Plus(Foo(x), Bar(x))\nM(a) { t=Tahn(a)\n u=Sigmiod(M(a)) }\nm=M(x)\nn=Tanh(m.t)\ny=Tanh(z, q=Baz(x))",
        "r.cntk:3:8: there is no function or macro 'Foo'; did you mean 'Floor'?\n"
        "r.cntk:3:16: there is no function or macro 'Bar'\n"
        "r.cntk:4:10: there is no function or macro 'Tahn'; did you mean 'Tanh'?\n"
        "r.cntk:5:4: there is no function or macro 'Sigmiod'; did you mean 'Sigmoid'?\n"
        "r.cntk:5:12: the macro 'M' calls itself\n"
        "r.cntk:8:13: there is no function or macro 'Baz'\n"
        "6 problems found",
    ),
    "macro with a mistake in its head": (
        X + "M(a, tanh) { z=Tanh(a) }\nz=Tanh(M(x, x))",
        "r.cntk:3:6: a parameter of the macro 'M' cannot be called 'tanh', which is a function",
    ),
    "mistake in a macro": (
        X + "FF(w, a) { t=Times(w, a) ; u=Plus(t, bias) }\nL(a) { W=Parameter(3, 4) ; ff=FF(W, a) }\n"
        "one=L(x)\ntwo=L(one)",
        "r.cntk:3:38: the name 'bias' is not defined\n"
        "    In the macro 'FF', called at r.cntk:4:31.\n"
        "    In the macro 'L', called at r.cntk:5:5.",
    ),
    "shapes in a macro": (
        X + "FF(w, a) { t=Times(w, a) }\nL(a) { W=Parameter(3, 4) ; ff=FF(W, a) }\none=L(x)\ntwo=L(one)",
        "r.cntk:3:14: Times 'two.ff.t': [3 x 4] * [3]: the inner dimensions differ, 4 on the left and 3 on the right\n"
        "    Inputs: two.W [3 x 4], one.ff.t [3]\n"
        "    In the macro 'FF', called at r.cntk:4:31.\n"
        "    In the macro 'L', called at r.cntk:6:5.",
    ),
    "a name that could not be read is no further problem": (
        X + "z=Sigmiod(x)\ny=Tanh(z)\nOutputNodes=(y, z.p)",
        "r.cntk:3:3: there is no function or macro 'Sigmiod'; did you mean 'Sigmoid'?",
    ),
    "text that does not end": (
        X + 'z=Tanh(x, tag="a',
        "r.cntk:3:15: no closing '\"' for this quotation mark\n    Add a '\"' where the text ends.",
    ),
    "member as a parameter of a macro": (
        X + "M(a.b) { z=Tanh(a) }",
        "r.cntk:3:3: the parameters of the macro 'M' must be plain names\n    Defaults are not possible.",
    ),
    "number as a parameter of a macro": (
        X + "M(a, 3) { z=Tanh(a) }",
        "r.cntk:3:6: the parameters of the macro 'M' must be plain names\n    Defaults are not possible.",
    ),
    "macro whose value is a number": (
        X + "M(a) { y=3 }\nm=M(x)\nw=Parameter(m,4)",
        "r.cntk:4:3: an input of M must be a node; this is a number\n    Write Constant(3).",
    ),
    "dimension that is no whole number": (
        X + "w=Parameter(2.5,4)",
        "r.cntk:3:13: a dimension must be a whole number, not 2.5",
    ),
    "dimension below 0": (X + "w=Parameter(-1,4)", "r.cntk:3:13: a dimension must be a whole number, not -1"),
    "dimension that is a text": (X + 'a="t"\nw=Parameter(a,4)', "r.cntk:4:13: a dimension must be a number, not 'a'"),
    "initializer without its file": (
        X + "w=Parameter(3,4,init=fromFile)",
        "r.cntk:3:17: the initializer 'fromFile' needs initFromFilePath",
    ),
    "delay of no step": (
        X + "z=PastValue(4, 1, x, delayTime=0)",
        "r.cntk:3:3: PastValue 'z': timeStep must be at least 1, not 0\n    Inputs: x [4]",
    ),
    "delay of half a step": (
        X + "z=PastValue(4, 1, x, delayTime=1.5)",
        "r.cntk:3:32: delayTime must be a whole number, not 1.5",
    ),
    "rows that are not there": (
        X + "z=RowSlice(3,4,x)",
        "r.cntk:3:3: Slice 'z': the range 3 to 7 of axis 1 is not inside [4]\n    Inputs: x [4]",
    ),
    "too few arguments of slices": (
        X + "z=RowSlice(1, x)",
        "r.cntk:3:3: RowSlice takes 3 arguments, not 2\n    RowSlice(firstRow, rows, x)",
    ),
    "number in a group": (X + "OutputNodes=3", "r.cntk:3:13: a member of OutputNodes is not a node"),
    "layout of images": (
        X + "i=ImageInput(4,4,1,imageLayout=foo)",
        "r.cntk:3:20: 'imageLayout' cannot be 'foo'\n    Accepted: HWC, legacy, CHW, cudnn",
    ),
    "pooling of no image": (
        X + "z=MaxPooling(x,2,2,2,2)",
        "r.cntk:3:3: MaxPooling 'z': an image has width, height and channels; [4] has 1 axes\n    Inputs: x [4]",
    ),
    "flag that is a number": (
        X + "z=BatchNormalization(x, x, x, x, x, spatial=3)",
        "r.cntk:3:37: 'spatial' must be true or false, not '3'",
    ),
    "constant of a name": (X + "c=Constant(x)", "r.cntk:3:12: the value of a constant must be a number, not 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_texts(message, case: str) -> None:
    text, expected = CASES[case]
    assert message(text) == expected


BLOCKS = {
    "no run": (
        "NDLNetworkBuilder=[ net=[ x=Input(4) ] ]",
        "r.cntk:1:19: the network builder has neither 'run' nor 'networkDescription'\n"
        "    Write run=net and a section net=[ ... ], or networkDescription=file.",
    ),
    "no such section": (
        "NDLNetworkBuilder=[ run=nett ; net=[ x=Input(4) ] ]",
        "r.cntk:1:21: there is no section 'nett', which 'run' names\n    Sections here: run, net",
    ),
    "two files": (
        "NDLNetworkBuilder=[ networkDescription=a.ndl+b.ndl ]",
        "r.cntk:1:21: networkDescription must be one file\n    Files with macros can be listed with '+' in ndlMacros.",
    ),
    "missing file": (
        'NDLNetworkBuilder=[ networkDescription="no.ndl" ]',
        "r.cntk:1:21: cannot read the file 'no.ndl': No such file or directory\n"
        "    Relative paths count from currentDirectory, or from where the command was started.",
    ),
    "seed": (
        "NDLNetworkBuilder=[ run=n ; randomSeedOffset=abc ; n=[ x=Input(4) ] ]",
        "r.cntk:1:46: NDLNetworkBuilder:randomSeedOffset must be a whole number, not 'abc'\n"
        "    Accepted: a whole number of at most 64 bits, written out.",
    ),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_texts_of_the_block(recipe, case: str) -> None:
    text, expected = BLOCKS[case]
    with pytest.raises(CntkError) as error:
        recipe(text)
    assert str(error.value) == expected


def test_sections_of_a_file(recipe, shipped, tmp_path) -> None:
    path = shipped("net.ndl", "run=net\nnt=[ x=Input(4) ]\n")
    with pytest.raises(CntkError) as error:
        recipe("NDLNetworkBuilder=[ networkDescription=net.ndl ]", directory=tmp_path)
    assert str(error.value) == f"{path}:1:1: there is no section 'net', which 'run' names\n    Sections here: run, nt"


def test_list_of_nodes_that_cannot_be_written(recipe, tmp_path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(CntkError) as error:
        recipe("NDLNetworkBuilder=[ run=n ; dumpFileName=out ; n=[ x=Input(4,tag=feature) ] ]", directory=tmp_path)
    assert str(error.value) == f"r.cntk:1:29: cannot write the node list '{tmp_path / 'out'}': Is a directory"


def test_only_the_first_unknown_functions_get_hints(message) -> None:
    text = message(X + "\n".join(f"y{number}=Sigmiod(x)" for number in range(60)))
    assert text.count("did you mean 'Sigmoid'?") == 50
    assert text.count("there is no function or macro 'Sigmiod'") == 60


def test_too_many_calls(message, monkeypatch) -> None:
    monkeypatch.setattr(expand, "_MAX_CALLS", 5000)
    macros = ["M0(a) { s=Sigmoid(a) }"]
    macros += [f"M{n}(a) {{ s=M{n - 1}(a) ; t=M{n - 1}(s) }}" for n in range(1, 20)]
    text = "\n".join([*macros, "x=Input(4,tag=feature)", "z=M19(x)"])
    lines = message(text).splitlines()
    assert lines[0] == "r.cntk:3:21: the macros expand to more than 5000 calls"
    assert lines[1] == "    In the macro 'M1', called at r.cntk:4:21."
    assert len(lines) == 7


def test_texts_that_are_no_description() -> None:
    statements, problems = parse(SourceText.of("x=Input(4)\n" + ") " * 3000 + "\ny=Tanh(x)"))
    assert len(statements) == 1
    assert len(problems) == 101
    assert str(problems[-1]) == "<text>:2:201: there are too many mistakes; the rest of the text is not read"
