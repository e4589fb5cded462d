"""A server as clients see it: answers, mistakes, limits."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pytest
import uvicorn
from cntk_tool_serve.app import Limits, Service
from cntk_tool_serve.batching import Batcher, Overload, TooLate
from cntk_tool_serve.server import _listen
from cntk_tool_serve.verb import Serve

from cntk_core.api import DataError, Input, Network, Node
from cntk_core.api.builders import FREE
from cntk_core.api.training import Model
from cntk_kit_recipes.cli import main
from cntk_testing import PackagingContract, VerbContract
from cntk_testing.inside import save_model
from cntk_testing.networks import Sketch, classifier
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES

Ask = Callable[..., tuple[int, Any]]


def network(name: str = "") -> Network:
    """One input of 6, an output of 4; or a sequence network."""
    sample = SEQUENCE_SAMPLES[name]("float32") if name else classifier("float32")
    assert sample.criterion is not None
    sample.network.roots["output"] = [sample.criterion.inputs[1]]
    return sample.network


def samples(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 6)).astype(np.float32)


def output(found: dict[str, Any]) -> Any:
    return next(iter(found.values()))


@contextmanager
def serving(model: Model, limits: Limits | None = None) -> Iterator[str]:
    """Serve a model in a thread; gives the address."""
    service = Service(model, (), "net.dnn", limits or Limits())
    with _listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(service.app(), log_level="warning"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)


def ask(address: str, body: Any, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=60) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if "json" in answer.headers["content-type"] else content
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60) as answer:
        content = answer.read()
        return json.loads(content) if "json" in answer.headers["content-type"] else content.decode()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Model(network()), Limits(body=10_000)) as found:
        yield found


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-serve"
    kind = "verb"


class TestVerb(VerbContract):
    verb_class = Serve
    command_lines = (("net.dnn", "--check"),)

    def prepare(self, folder: Path) -> None:
        save_model(network(), folder / "net.dnn")


@pytest.mark.parametrize("form", ["wrapped", "named", "alone"])
def test_answers_are_those_of_the_model(address: str, form: str) -> None:
    values = samples(5)
    body = {"wrapped": {"inputs": {"X": values.tolist()}}, "named": {"x": values.tolist()}, "alone": values.tolist()}
    status, found = ask(f"{address}/predict", body[form])
    assert status == 200
    np.testing.assert_allclose(output(found["outputs"]), output(Model(network()).evaluate(values)), rtol=1e-6)


def test_many_at_once(address: str) -> None:
    """Each gets its own samples back, however they were put together."""
    model = Model(network())
    requests = [samples(count) for count in (1, 2, 3) * 15]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda values: ask(f"{address}/predict", {"x": values.tolist()}), requests))
    for values, (status, found) in zip(requests, answers, strict=True):
        assert status == 200
        np.testing.assert_allclose(output(found["outputs"]), output(model.evaluate(values)), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_arrow(address: str) -> None:
    import pyarrow as pa
    from cntk_tool_serve.requests import ARROW

    values = samples(4)
    table = pa.table({"x": list(values)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    status, found = ask(f"{address}/predict", bytes(sink.getvalue()), **{"Content-Type": ARROW})
    assert status == 200
    answer = pa.ipc.open_stream(found).read_all()
    expected = output(Model(network()).evaluate(values))
    np.testing.assert_allclose(np.stack(answer.column(0).to_pylist()), expected, rtol=1e-6)
    assert ask(f"{address}/predict", b"nothing", **{"Content-Type": ARROW})[0] == 400


def test_sequences() -> None:
    model = Model(network("lstm"))
    node = model.network.inputs[0]
    given = [np.random.default_rng(n).standard_normal((n, *node.known_shape)) for n in (2, 1, 3)]
    with serving(Model(network("lstm"))) as address, ThreadPoolExecutor(8) as pool:
        body = {node.name: [one.tolist() for one in given]}
        for status, found in pool.map(lambda _: ask(f"{address}/predict", body), range(8)):
            assert status == 200
            expected = output(model.evaluate({node.name: given}))
            for one, wanted in zip(output(found["outputs"]), expected, strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


NO_SAMPLES = "the values of 'x' are no list of samples [6], nor of sequences of them"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "the request is no JSON: Expecting property name enclosed in double quotes"),
        (b"[NaN]", 400, "NaN is no number of JSON"),
        (b"[" * 3000, 400, "the request is no JSON: "),
        (b"\xff", 400, "the request is no JSON: "),
        ({"y": [[1]]}, 400, "there are no values for x\n    The inputs are x [6]."),
        ({"inputs": 3}, 400, "the inputs are no object of names and values\n    The inputs are x [6]."),
        ({"x": [1, 2, 3]}, 400, NO_SAMPLES),
        ({"x": [[1, 2, 3]]}, 400, "the input 'x' has the shape (1, 3)"),
        ({"x": [[1, 2, 3, 4, 5, 6], [1]]}, 400, NO_SAMPLES),
        ({"x": [[1, 2, 3, 4, 5, "6"]]}, 200, ""),
        ({"x": [[1, 2, 3, 4, 5, "six"]]}, 400, NO_SAMPLES),
        ({"x": [[1, 2, 3, 4, 5, None]]}, 400, "'x' has values that are no finite numbers"),
        ({"x": [[1, 2, 3, 4, 5, 10**400]]}, 400, NO_SAMPLES),
        ({"x": []}, 400, NO_SAMPLES),
        (b" " * 10_001, 413, "the request is longer than 10000 bytes"),
    ],
)
def test_mistakes(address: str, body: Any, status: int, message: str) -> None:
    found, said = ask(f"{address}/predict", body)
    assert found == status
    assert status == 200 or said["error"].startswith(message)
    assert get(f"{address}/health")["status"] == "ok"


def test_images_of_any_size() -> None:
    """Sizes that each request brings: those of one size are computed together, others apart."""
    made = Sketch("float32")
    x = made.input("x", 2, FREE)
    root = made.op("ElementTimes", x, x, name="squares")
    served = made.finish(None, root).network
    served.roots["output"] = [root]
    with serving(Model(served)) as address, ThreadPoolExecutor(8) as pool:
        given = [np.full((count, 2, size), float(size)) for count, size in ((1, 3), (2, 3), (1, 5), (3, 1)) * 3]
        answers = pool.map(lambda values: ask(f"{address}/predict", values.tolist()), given)
        for values, (status, found) in zip(given, answers, strict=True):
            assert (status, found["outputs"]) == (200, {"squares": (values * values).tolist()})
        (told,) = get(f"{address}/model")["inputs"]
        assert told == {"name": "x", "shape": [2, None], "takes": "samples", "sparse": False}
    assert Service(Model(served), (), "", Limits()).check() == "x [? x 2] -> squares [? x 2]"


def test_values_without_samples() -> None:
    """An input of one value for all samples is taken as it is, each request by itself."""
    made = Sketch("float32")
    x = made.input("x", 2)
    scale = made.network.add(Input.make("scale", (2,), framed=False))
    root = made.op("ElementTimes", x, scale, name="scaled")
    served = made.finish(None, root).network
    squares = served.add(Node("squares", root.op, [scale, scale], root.attributes))
    served.infer()
    served.roots["output"] = [root, squares]
    assert Service(Model(served), (), "", Limits()).check() == "x [2], scale [2] -> scaled [2], squares [2]"
    with serving(Model(served)) as address, ThreadPoolExecutor(4) as pool:
        given = [{"x": [[1, 2]] * count, "scale": [count, -count]} for count in range(1, 9)]
        for one, (status, found) in zip(
            given, pool.map(lambda one: ask(f"{address}/predict", one), given), strict=True
        ):
            wanted = {"scaled": (np.array(one["scale"]) * one["x"]).tolist(), "squares": [one["scale"][0] ** 2] * 2}
            assert (status, found["outputs"]) == (200, wanted)
        status, found = ask(f"{address}/predict", {"x": [[1, 2]], "scale": [[1, 2]]})
        assert (status, found["error"]) == (400, "the value of 'scale' is not [2]")
        assert [node["takes"] for node in get(f"{address}/model")["inputs"]] == ["samples", "value"]


def test_a_model_that_looks_along_sequences() -> None:
    model = Model(network("lstm"))
    assert Service(model, (), "", Limits()).check()
    with serving(model) as address:
        told = get(f"{address}/model")["inputs"]
        assert {node["takes"] for node in told} == {"sequences"}
        status, found = ask(f"{address}/predict", {node["name"]: [[[0.5] * node["shape"][0]] * 3] for node in told})
        assert status == 200
        assert len(output(found["outputs"])[0]) == 3


def test_what_a_server_tells(address: str) -> None:
    told = get(f"{address}/model")
    assert told["inputs"] == [{"name": "x", "shape": [6], "takes": "samples", "sparse": False}]
    assert [node["shape"] for node in told["outputs"]] == [[4]]
    assert "<title>cntk serve</title>" in get(f"{address}/")
    health = get(f"{address}/health")
    assert (health["status"], health["waiting"]) == ("ok", 0)
    assert health["requests"] >= health["batches"] >= 0


class Slow:
    """A model that computes when it is told to, and notes how many samples it is given at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.sizes: list[int] = []

    def evaluate(self, inputs: Any, names: Any) -> dict[str, Any]:
        assert self.go.wait(60)
        values = inputs["x"]
        self.sizes.append(len(values))
        if values.max() > 100:
            raise DataError("too large")
        return {"z": 2 * values}


def batcher(model: Slow, **limits: Any) -> Batcher:
    return Batcher(model, ["z"], **{"most": 4, "queue": 8, "timeout": 60.0, **limits})  # type: ignore[arg-type]


def test_what_waits_is_computed_together() -> None:
    async def run() -> None:
        slow = Slow()
        asked = batcher(slow)
        given = [np.full((count, 1), float(count)) for count in (1, 2, 2, 3, 9)]
        tasks = [asyncio.create_task(asked({"x": values}, len(values))) for values in given]
        await asyncio.sleep(0.1)
        slow.go.set()
        for values, found in zip(given, await asyncio.gather(*tasks), strict=True):
            assert found["z"].tolist() == (2 * values).tolist()
        assert slow.sizes == [3, 2, 3, 9]  # 4 samples at most, but a request is never parted
        assert (asked.requests, asked.batches, asked.waiting) == (5, 4, 0)
        asked.close()

    asyncio.run(run())


def test_a_mistake_is_of_the_request_that_makes_it() -> None:
    async def run() -> None:
        slow = Slow()
        asked = batcher(slow)
        given = [np.full((1, 1), value) for value in (1.0, 1000.0, 3.0)]
        tasks = [asyncio.create_task(asked({"x": values}, 1)) for values in given]
        slow.go.set()
        first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
        assert (first["z"].item(), str(second), third["z"].item()) == (2.0, "too large", 6.0)  # type: ignore[index]
        asked.close()

    asyncio.run(run())


def test_too_many_and_too_long() -> None:
    async def run() -> None:
        slow = Slow()
        asked = batcher(slow, most=1, queue=2, timeout=0.2)
        one = np.ones((1, 1))
        first = asyncio.create_task(asked({"x": one}, 1))
        await asyncio.sleep(0.05)  # the thread has it: it does not wait any more
        others = [asyncio.create_task(asked({"x": one}, 1)) for _ in range(3)]
        await asyncio.sleep(0.5)
        slow.go.set()
        found = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(answer) for answer in found] == [dict, TooLate, TooLate, Overload]
        asked.close()

    asyncio.run(run())


def test_overload_is_503() -> None:
    slow: Any = Slow()
    slow.network = network()
    with serving(slow, Limits(queue=1)) as address, ThreadPoolExecutor(8) as pool:
        body = {"x": samples(1).tolist()}
        waiting = [pool.submit(ask, f"{address}/predict", body) for _ in range(6)]
        done = []
        while len(done) < 4:  # one is computed, one waits
            done = [one for one in waiting if one.done()]
        assert {one.result()[0] for one in done} == {503}
        assert done[0].result()[1] == {"error": "1 requests wait already"}
        slow.go.set()
        answers = [one.result()[0] for one in waiting]
        assert set(answers) == {200, 503}
        assert answers.count(200) in (1, 2)  # one if all have come before the first was taken


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    save_model(network(), tmp_path / "net.dnn")
    command = [sys.executable, "-m", "cntk_core", "serve", "net.dnn", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.fullmatch(r"net\.dnn: (http://127\.0\.0\.1:(\d+)/)  \(Ctrl-C ends\)\n", process.stdout.readline())
        assert found
        status, _ = ask(f"{found[1]}predict", samples(2).tolist())
        taken = subprocess.run([*command[:-1], found[2]], cwd=tmp_path, capture_output=True, text=True, check=False)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130, -signal.SIGINT)
    assert status == 200
    assert taken.returncode == 1
    assert taken.stderr == (
        f"error: cannot listen at 127.0.0.1, port {found[2]}: address already in use\n"
        "    --port names another one; 0 takes one that is free.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch", "0"], "--batch must be greater than 0, not 0"),
        (["--queue", "0"], "--queue must be greater than 0, not 0"),
        (["--body", "-1"], "--body must be greater than 0, not -1"),
        (["--timeout", "0"], "--timeout must be greater than 0, not 0"),
        (["--port", "65536"], "--port must be from 0 to 65535, not 65536"),
        (["--port", "-1"], "--port must be from 0 to 65535, not -1"),
        (["--port", "65535", "--batch", "1"], "the model 'm.dnn' cannot be read: No such file or directory"),
    ],
)
def test_options_that_make_no_sense(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["serve", "m.dnn", *arguments]) != 0
    assert message in capsys.readouterr().err
