"""What is said about wrong data, sources of data, evaluations, learners and trainings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cntk as C
import numpy as np
import pytest
from cntk.internal import sanitize_batch, sanitize_value, sanitize_var_map
from cntk.io import MinibatchSourceFromData, StreamInformation, UserDeserializer, UserMinibatchSource, transforms
from scipy.sparse import csc_matrix, csr_matrix

Mistakes = Mapping[str, tuple[Callable[[], Any], str]]


def check(mistakes: Mistakes, kind: type[Exception]) -> None:
    for name, (call, message) in mistakes.items():
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) == message, name


def x(*shape: int, **more: Any) -> Any:
    return C.input_variable(shape, name="x", **more)


ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_arrays_and_views():
    sparse = C.NDArrayView.from_csr(csr_matrix(ROWS))
    check(
        {
            "no array": (lambda: C.NDArrayView.from_dense([1, 2]), "data must be an array of NumPy, not list"),
            "no CSR": (
                lambda: C.NDArrayView.from_csr(csc_matrix(ROWS)),
                "only CSR is supported as of now. Please convert your data using 'tocsr()'",
            ),
            "dense": (
                lambda: C.NDArrayView.from_csr(ROWS),
                "only CSR is supported as of now. Please convert your data using 'tocsr()'",
            ),
        },
        TypeError,
    )
    check(
        {
            "borrowed": (
                lambda: C.NDArrayView.from_dense(ROWS.T, borrow=True),
                "an array whose numbers do not lie one after the other cannot be borrowed",
            ),
            "shape": (
                lambda: C.NDArrayView.from_csr(csr_matrix(ROWS), shape=(3, 3)),
                "the shape (3, 3) does not have the elements of (3, 2)",
            ),
            "sparse": (lambda: sparse.as_shape((6,)), "a sparse view cannot have another shape"),
            "one-hot": (lambda: C.Value.one_hot([[1.5]], 3), "supplied index is not a whole number"),
            "large": (lambda: C.Value.one_hot([[3]], 3), "one-hot numbers have to be below 3"),
            "negative": (lambda: C.Value.one_hot([[-2]], 3), "one-hot numbers have to be below 3"),
            "mixed": (
                lambda: C.Value.create(C.sequence.input_variable(2), [ROWS, csr_matrix(ROWS)]),
                "sparse and dense sequences cannot be in one minibatch",
            ),
            "columns": (
                lambda: C.Value.create(C.sequence.input_variable(2, is_sparse=True), [csc_matrix(ROWS)]),
                "only CSR is supported as of now. Please convert your data using 'tocsr()'",
            ),
            "nothing": (
                lambda: sanitize_value(None, None, np.float32, None),
                "you need to specify at least shape or value",
            ),
            "starts": (
                lambda: sanitize_batch(x(2), ROWS, [True]),
                "you specified sequence begin markers, but your variable has no sequences",
            ),
            "starts of values": (
                lambda: sanitize_batch(x(2), C.Value(ROWS), [True]),
                "for values that are made already no starts of sequences can be said",
            ),
            "several": (
                lambda: sanitize_var_map([x(2), C.input_variable(1)], ROWS),
                "data without a dictionary can be given to one variable, and there are 2",
            ),
        },
        ValueError,
    )
    assert C.NDArrayView.from_dense(ROWS, borrow=True).shape == (3, 2)
    assert C.NDArrayView.from_csr(csr_matrix(ROWS), shape=(6,)).shape == (6,)


def test_evaluations():
    one, other = x(2, needs_gradient=True), C.input_variable(2, name="y")
    both = one * other
    state, _ = both.forward({one: ROWS, other: ROWS}, [both.output], {both.output})
    strange = C.input_variable(2, name="strange", needs_gradient=True)
    elsewhere = C.exp(strange).output
    seeds = {both.output: np.ones_like(ROWS)}
    check(
        {
            "missing": (
                lambda: both.eval({one: ROWS}),
                f"values for 1 required arguments {other} have not been provided",
            ),
            "no gradients": (
                lambda: both.grad({one: ROWS, other: ROWS}, wrt=[other]),
                f"{other} does not need gradients, so none flow to it; say needs_gradient=True",
            ),
            "nothing to want": (
                lambda: C.abs(other).grad({other: ROWS}),
                "there is nothing by which gradients could be wanted; say needs_gradient=True of an input",
            ),
            "backward": (
                lambda: both.backward(None, seeds, {one}),
                "nothing was kept for the gradients; say keep_for_backward in forward()",
            ),
            "backward to a stranger": (
                lambda: both.backward(state, seeds, {strange}),
                f"the function does not depend on {strange}",
            ),
            "backward without gradients": (
                lambda: both.backward(state, seeds, {other}),
                f"{other} does not need gradients, so none flow to it; say needs_gradient=True",
            ),
            "shapes": (lambda: C.abs(one).eval({one: [[[1, 2], [3]]]}), f"the values for {one} are of several shapes"),
            "texts": (
                lambda: C.abs(one).eval({one: [[None, 2]]}),
                f"the values for {one} are no numbers, or of several shapes",
            ),
            "none": (lambda: C.abs(one).eval({one: []}), f"no samples are given for {one}"),
            "no output": (
                lambda: C.abs(one).forward({one: ROWS}, [elsewhere]),
                f"{elsewhere} is no output of the function, and of nothing that it depends on",
            ),
        },
        ValueError,
    )


def test_sources_of_arrays():
    check(
        {
            "none": (
                lambda: MinibatchSourceFromData({}),
                "a source of arrays has at least one stream: name=data or name=(data, type)",
            ),
            "empty": (lambda: MinibatchSourceFromData({"x": ROWS[:0]}), "the data are empty"),
            "type": (
                lambda: MinibatchSourceFromData({"x": (ROWS, 2.5)}),
                "beside the data of 'x' stands their type, such as Tensor[13], not 2.5",
            ),
            "storage": (
                lambda: StreamInformation("x", 0, "thin", np.float32, (2,)),
                "the storage of a stream is dense or sparse, not 'thin'",
            ),
            "window": (
                lambda: C.io.MinibatchSource([], randomization_window_in_chunks=1, randomization_window_in_samples=1),
                "a window of a random order counts chunks or samples, not both",
            ),
            "frames": (
                lambda: C.io.MinibatchSource([], frame_mode=True, truncation_length=2),
                "frames alone cannot be cut: frame_mode and truncation_length exclude each other",
            ),
            "crop": (
                lambda: transforms.crop("randomside", side_ratio=(0.9, 0.5)),
                "side_ratio of crop goes from 0.9 to 0.5; the first must not be larger",
            ),
        },
        ValueError,
    )
    check(
        {
            "no arrays": (
                lambda: MinibatchSourceFromData({"x": [[1, 2]]}),
                "the data of 'x' are arrays of NumPy or CSR matrices, or a list of those",
            )
        },
        TypeError,
    )


def test_sources_of_users_that_lack_something():
    class Bare(UserMinibatchSource):
        pass

    class Mine(UserMinibatchSource):
        def stream_infos(self):
            return []

    class Theirs(UserDeserializer):
        pass

    check(
        {
            "streams": (Bare, "Bare does not say which streams it has: it has no stream_infos"),
            "minibatches": (lambda: Mine().next_minibatch(3), "Mine gives no minibatches: it has no next_minibatch"),
            "state": (
                lambda: Mine().restore_from_checkpoint({"at": 3}),
                "Mine has a state, but no restore_from_checkpoint",
            ),
            "deserializer": (
                lambda: Theirs().stream_infos(),
                "Theirs does not say which streams it has: it has no stream_infos",
            ),
            "chunks": (
                lambda: Theirs().num_chunks(),
                "Theirs does not say how many chunks it has: it has no num_chunks",
            ),
            "chunk": (lambda: Theirs().get_chunk(0), "Theirs gives no data: it has no get_chunk"),
            "lattices": (lambda: C.io.LatticeDeserializer("index", None), "lattices cannot be read"),
            "binary labels": (
                lambda: C.io.HTKMLFBinaryDeserializer(None),
                "binary master label files cannot be read; HTKMLFDeserializer reads those in text",
            ),
        },
        NotImplementedError,
    )
    Mine().restore_from_checkpoint({})


def test_deserializers_of_users():
    class Theirs(UserDeserializer):
        def __init__(self, streams, chunks):
            super().__init__()
            self._streams, self._chunks = streams, chunks

        def stream_infos(self):
            return self._streams

        def num_chunks(self):
            return self._chunks

        def get_chunk(self, chunk_id):
            return {"x": ROWS}

    stream = StreamInformation("x", 0, "dense", np.float32, (2,))
    check(
        {
            "streams": (lambda: C.io.MinibatchSource([Theirs([], 1)]), "Theirs has no streams"),
            "chunks": (lambda: C.io.MinibatchSource([Theirs([stream], 0)]), "Theirs has no chunks"),
            "joined": (
                lambda: C.io.MinibatchSource([Theirs([stream], 1), Theirs([stream], 1)]),
                "a deserializer that is written in Python cannot be joined with others",
            ),
        },
        ValueError,
    )
    source = C.io.MinibatchSource([Theirs([stream], 1)], randomize=False, max_sweeps=1)
    assert source.next_minibatch(2)[source.streams.x].num_samples == 2


def test_features_of_utterances():
    def deserializer(**more):
        return C.io.HTKFeatureDeserializer(C.io.StreamDefs(x=C.io.StreamDef(shape=3, **more)))

    check(
        {
            "field": (lambda: deserializer(field="x", scp="x.scp"), "HTKFeatureDeserializer: features have no fields"),
            "scp": (deserializer, "HTKFeatureDeserializer: the stream 'x' needs scp, its list of files"),
            "none": (
                lambda: C.io.HTKFeatureDeserializer(C.io.StreamDefs()),
                "HTKFeatureDeserializer: there is no stream",
            ),
        },
        ValueError,
    )


def test_learners_and_schedules():
    w, later = C.parameter((2,), name="w"), C.parameter((C.InferredDimension, 2), init=C.glorot_uniform())
    learner = C.momentum_sgd([w], C.learning_parameter_schedule(0.1), C.momentum_schedule(0.9))
    kept = learner.create_checkpoint()
    check(
        {
            "rate": (
                lambda: learner.reset_learning_rate(0.1),
                "a learning rate is a schedule, as learning_parameter_schedule makes, not 0.1",
            ),
            "schedule": (
                lambda: C.learning_parameter_schedule("fast"),
                "schedule is a number or a list of numbers, not <class 'str'>",
            ),
            "universal": (
                lambda: C.universal(lambda parameters: parameters, [w]),
                "the function of a universal learner takes two arguments: parameters and gradients",
            ),
            "shape": (
                lambda: C.universal(lambda parameters, gradients: parameters, [later]),
                f"the parameter {later} has no shape yet; make the learner after it has one",
            ),
            "parameters": (
                lambda: learner.restore_from_checkpoint({**kept, "smoothed_gradients": []}),
                "the checkpoint is of 0 parameters; the learner has 1",
            ),
        },
        ValueError,
    )


class Model:
    """A linear model, and its criterion."""

    def __init__(self) -> None:
        self.x, self.y = C.input_variable(2, name="x"), C.input_variable(1, name="y")
        self.w = C.parameter((2, 1))
        self.z = C.times(self.x, self.w)
        self.loss = C.squared_error(self.z, self.y)
        self.learner = C.sgd(self.z.parameters, C.learning_parameter_schedule(0.1))

    def trainer(self) -> Any:
        return C.Trainer(self.z, (self.loss, None), self.learner)


TARGETS = np.ones((3, 1), np.float32)


def test_trainings():
    model = Model()
    source = MinibatchSourceFromData({"x": ROWS, "y": TARGETS})
    trainer = model.trainer()
    data = {model.x: ROWS, model.y: TARGETS}
    read = source.next_minibatch(3)
    fed = {model.x: read[source.streams.x], model.y: read[source.streams.y]}
    train = model.loss.train

    def session(**changes: Any) -> Any:
        said = {
            "trainer": trainer,
            "mb_source": source,
            "mb_size": 3,
            "model_inputs_to_streams": {model.x: source.streams.x, model.y: source.streams.y},
            "max_samples": 3,
        }
        return C.training_session(**{**said, **changes})

    learners = [model.learner]
    check(
        {
            "size": (
                lambda: train((ROWS, TARGETS), minibatch_size=None, parameter_learners=learners),
                "training needs a minibatch_size",
            ),
            "both": (
                lambda: train((ROWS, TARGETS), max_samples=3, max_epochs=1, parameter_learners=learners),
                "max_samples and max_epochs exclude each other",
            ),
            "test": (
                lambda: model.loss.test((ROWS, TARGETS), minibatch_size=None),
                "a test needs a minibatch_size",
            ),
            "streams": (
                lambda: train(
                    source,
                    streams=(source.streams.x, source.streams.y),
                    model_inputs_to_streams={model.x: source.streams.x},
                    max_samples=3,
                    parameter_learners=learners,
                ),
                "streams and model_inputs_to_streams exclude each other",
            ),
            "callback": (
                lambda: train((ROWS, TARGETS), parameter_learners=learners, callbacks=[3]),
                "a callback is a progress writer or a configuration of a session, not 3",
            ),
            "epoch": (
                lambda: train(source, streams=(source.streams.x, source.streams.y), parameter_learners=learners),
                "training from a source needs epoch_size or max_samples",
            ),
            "arguments": (
                lambda: train((ROWS,), parameter_learners=learners),
                "the criterion has 2 arguments; there are data for 1",
            ),
            "trainer": (lambda: session(trainer=None), "a training session needs a trainer"),
            "source": (lambda: session(mb_source=None), "a training session needs a source of minibatches"),
            "session streams": (
                lambda: session(model_inputs_to_streams=None),
                "a training session needs the streams of the variables: model_inputs_to_streams",
            ),
            "samples": (lambda: session(max_samples=0), "max_samples of a training session must not be 0"),
            "data and streams": (
                lambda: session(mb_source=(ROWS, TARGETS)),
                "data in place of a source have no streams: leave model_inputs_to_streams out",
            ),
            "sizes": (
                lambda: session(mb_size="3"),
                "mb_size is a whole number or what minibatch_size_schedule returns, not <class 'str'>",
            ),
            "size schedule": (
                lambda: C.minibatch_size_schedule("3"),
                "sizes of minibatches are a whole number or a list of them, not <class 'str'>",
            ),
            "frequency": (
                lambda: C.CheckpointConfig("m", (3, "epochs")),
                "a frequency is a number of samples, or (number, DataUnit), not (3, 'epochs')",
            ),
            "sweeps": (
                lambda: trainer.train_minibatch(fed, is_sweep_end=True),
                "a source says itself where sweeps end: is_sweep_end is for other data",
            ),
            "metric": (
                lambda: trainer.test_minibatch(data),
                "a trainer without a metric tests nothing: give it (loss, metric)",
            ),
            "average": (
                lambda: trainer.previous_minibatch_evaluation_average,
                "this trainer has no metric: give it (loss, metric)",
            ),
            "data": (lambda: trainer.train_minibatch(ROWS), "there are 2 arguments, but data for 1"),
            "evaluator": (lambda: C.eval.Evaluator(None).test_minibatch(data), "this evaluator has no function"),
        },
        ValueError,
    )


def test_graphs():
    again = C.abs(C.abs(x(2), name="same"), name="same")
    check(
        {
            "uid": (lambda: C.logging.find_by_uid(again, 3), "the uid of a node is a string, not <class 'int'>"),
            "several": (
                lambda: C.logging.find_by_name(again, "same"),
                "2 nodes have the name 'same'; find_all_with_name returns all of them",
            ),
        },
        ValueError,
    )


def test_functions_of_users():
    class Mine(C.ops.functions.UserFunction):
        def __init__(self, arg, outputs):
            self._told = outputs
            super().__init__([arg], name="mine")

        def infer_outputs(self):
            return [C.output_variable((2,), np.float32, self.inputs[0].dynamic_axes) for _ in range(self._told)]

        def forward(self, argument, outputs=None, device=None, outputs_to_retain=None):
            return None, argument

    class Silent(C.ops.functions.UserFunction):
        def __init__(self, arg):
            super().__init__([arg], name="silent")

    two = C.user_function(Mine(x(2), 2))
    check({"outputs": (lambda: two.eval({two.arguments[0]: ROWS}), "not all outputs have been provided")}, ValueError)
    check(
        {
            "infer": (lambda: C.user_function(Silent(x(2))), "infer_outputs has to be overwritten"),
            "deserialize": (
                lambda: C.ops.functions.UserFunction.deserialize([], "mine", {}),
                "deserialize has to be overwritten",
            ),
            "native": (
                lambda: C.ops.functions.native_user_function("mine", []),
                "user functions in C++ need the original's library; write them in Python or as an op",
            ),
            "registered": (
                lambda: C.ops.functions.register_native_user_function("mine", "module", "make"),
                "user functions in C++ need the original's library; write them in Python or as an op",
            ),
        },
        NotImplementedError,
    )
