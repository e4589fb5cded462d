# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN201, ANN204, B905, D102, UP031
"""Builds, evaluates and trains networks of JSON descriptions: run by ``tools/fuzz_original.py`` under two Pythons.

``python twins.py CASES.jsonl FOUND.jsonl FIRST`` goes through the cases from number FIRST on. It writes a line before
it begins with one, so that a crash can be told from the end, and then what it found: values, gradients and parameters
as lists of numbers, or what was refused. The same program runs with the original (Python 3.6) and with ``cntk-compat``.
"""

import json
import sys

import cntk as C
import numpy as np
import scipy.sparse

DTYPES = {"float": np.float32, "double": np.float64}
ONES = {
    "sigmoid": C.sigmoid,
    "tanh": C.tanh,
    "relu": C.relu,
    "abs": C.abs,
    "negate": C.negate,
    "square": C.square,
    "sin": C.sin,
    "cos": C.cos,
    "atan": C.atan,
    "asinh": C.asinh,
    "softplus": C.softplus,
    "softsign": C.softsign,
    "hard_sigmoid": lambda x: C.hard_sigmoid(x, 0.2, 0.5),
    "elu": C.elu,
    "selu": C.selu,
    "leaky_relu": C.leaky_relu,
    "floor": C.floor,
    "ceil": C.ceil,
    "round": C.round,
    "stop_gradient": C.stop_gradient,
    "alias": C.alias,
    "exp": lambda x: C.exp(C.tanh(x)),
    "sinh": lambda x: C.sinh(C.tanh(x)),
    "cosh": lambda x: C.cosh(C.tanh(x)),
    "log": lambda x: C.log(1.5 + C.abs(x)),
    "sqrt": lambda x: C.sqrt(0.5 + C.abs(x)),
    "reciprocal": lambda x: C.reciprocal(1.5 + C.abs(x)),
    "acos": lambda x: C.acos(0.9 * C.tanh(x)),
    "asin": lambda x: C.asin(0.9 * C.tanh(x)),
    "atanh": lambda x: C.atanh(0.9 * C.tanh(x)),
    "first": C.sequence.first,
    "last": C.sequence.last,
    "is_first": C.sequence.is_first,
    "is_last": C.sequence.is_last,
    "sequence_sum": C.sequence.reduce_sum,
    "sequence_max": C.sequence.reduce_max,
    "sequence_softmax": C.sequence.softmax,
}
TWOS = {
    "plus": C.plus,
    "minus": C.minus,
    "element_times": C.element_times,
    "element_divide": lambda x, y: C.element_divide(x, 1.5 + C.abs(y)),
    "element_max": C.element_max,
    "element_min": C.element_min,
    "log_add_exp": C.log_add_exp,
    "greater": C.greater,
    "less": C.less,
    "equal": C.equal,
    "not_equal": C.not_equal,
    "greater_equal": C.greater_equal,
    "less_equal": C.less_equal,
    "broadcast_as": C.sequence.broadcast_as,
    "squared_error": C.squared_error,
    "cosine_distance": lambda x, y: C.cosine_distance(x + 2, y + 2),
    "softmax_cross_entropy": lambda x, y: C.cross_entropy_with_softmax(x, C.softmax(y)),
    "binary_cross_entropy": lambda x, y: C.binary_cross_entropy(C.sigmoid(x), C.sigmoid(y)),
}
REDUCTIONS = {
    "sum": C.reduce_sum,
    "mean": C.reduce_mean,
    "max": C.reduce_max,
    "min": C.reduce_min,
    "log_sum_exp": C.reduce_log_sum_exp,
    "l1": C.reduce_l1,
    "l2": C.reduce_l2,
    "sum_square": C.reduce_sum_square,
    "argmax": C.argmax,
    "argmin": C.argmin,
}


class Case:
    """A network and its data."""

    def __init__(self, spec):
        self.spec = spec
        self.dtype = DTYPES[spec["precision"]]
        self.random = np.random.RandomState(spec["seed"])
        self.inputs, self.parameters, self.values = [], [], []
        for one in spec["inputs"]:
            axes = {} if one["sequence"] else {"dynamic_axes": [C.Axis.default_batch_axis()]}
            make = C.sequence.input_variable if one["sequence"] else C.input_variable
            sparse = {"is_sparse": True} if one["sparse"] else {}
            needs = {} if one["sparse"] else {"needs_gradient": True}
            dims = tuple(one["shape"])
            self.inputs.append(make(dims, dtype=self.dtype, name=one["name"], **dict(axes, **sparse), **needs))

    def parameter(self, shape, scale=0.5):
        made = C.parameter(
            tuple(shape), init=self.array(shape, scale), dtype=self.dtype, name="p%d" % len(self.parameters)
        )
        self.parameters.append(made)
        return made

    def array(self, shape, scale=1.0):
        return np.asarray(scale * self.random.randn(*shape), self.dtype)

    def number(self, value):
        return C.constant(value, shape=(), dtype=self.dtype)

    def build(self):
        for node in self.spec["nodes"]:
            given = [self.values[i] for i in node["inputs"]]
            self.values.append(getattr(self, "make_" + node["kind"])(node, *given))
        return self.values

    def make_input(self, node):
        return self.inputs[node["number"]]

    def make_parameter(self, node):
        return self.parameter(node["shape"])

    def make_one(self, node, x):
        return ONES[node["op"]](x)

    def make_two(self, node, x, y):
        return TWOS[node["op"]](x, y)

    def make_softmax(self, node, x):
        return getattr(C, node["op"])(x) if node["axis"] is None else getattr(C, node["op"])(x, axis=node["axis"])

    def make_clip(self, node, x):
        return C.clip(x, node["least"], node["most"])

    def make_where(self, node, x, y):
        return C.element_select(C.greater(x, 0), x, y)

    def make_reduce(self, node, x):
        if node["op"].startswith("arg"):
            return REDUCTIONS[node["op"]](x, axis=node["axis"])
        return REDUCTIONS[node["op"]](x, axis=node["axis"], keepdims=node["keepdims"])

    def make_times(self, node, x):
        weights = self.parameter(node["shape"])
        if node["transposed"]:
            return C.times_transpose(x, weights)
        return C.times(x, weights, output_rank=node["outer"])

    def make_reshape(self, node, x):
        return C.reshape(x, tuple(node["shape"]))

    def make_transpose(self, node, x):
        return C.transpose(x, node["order"])

    def make_slice(self, node, x):
        return C.slice(x, node["axis"], node["begin"], node["end"], node["step"])

    def make_splice(self, node, *given):
        return C.splice(*given, axis=node["axis"])

    def make_pad(self, node, x):
        return C.pad(x, [tuple(one) for one in node["pattern"]], mode=node["mode"], constant_value=node["value"])

    def make_delay(self, node, x):
        make = C.sequence.past_value if node["steps"] > 0 else C.sequence.future_value
        return make(x, initial_state=self.number(node["initial"]), time_step=abs(node["steps"]))

    def make_convolution(self, node, x):
        kernel = self.parameter(node["kernel"])
        return C.convolution(
            kernel,
            x,
            strides=tuple(node["strides"]),
            auto_padding=[False] + node["padding"],
            dilation=tuple(node["dilation"]),
        )

    def make_transposed(self, node, x):
        kernel = self.parameter(node["kernel"])
        x = C.negate(x)  # the original forgets what other functions send back to the input
        return C.convolution_transpose(
            kernel, x, strides=tuple(node["strides"]), auto_padding=[False] + node["padding"]
        )

    def make_pooling(self, node, x):
        kind = C.MAX_POOLING if node["op"] == "max" else C.AVG_POOLING
        padding = [False] + node["padding"]
        return C.pooling(x, kind, tuple(node["window"]), tuple(node["strides"]), padding, ceil_out_dim=node["ceil"])

    def make_layer_norm(self, node, x):
        mean = C.reduce_mean(x, axis=C.Axis.all_static_axes())
        off = x - mean
        spread = C.sqrt(C.reduce_mean(C.square(off), axis=C.Axis.all_static_axes()) + 0.01)
        return C.element_divide(off, spread)

    def make_batch_norm(self, node, x):
        dims = node["shape"]
        mean, variance = [C.constant(0, shape=tuple(dims), dtype=self.dtype) for _ in range(2)]
        count = C.constant(0, shape=(), dtype=self.dtype)
        return C.batch_normalization(
            x,
            self.parameter(dims),
            self.parameter(dims),
            mean,
            variance,
            running_count=count,
            spatial=node["spatial"],
            normalization_time_constant=node["time"],
            epsilon=node["epsilon"],
            use_cudnn_engine=False,
        )

    def make_recurrence(self, node, x):
        width, steps = node["width"], node["steps"]
        into, back, bias = (
            self.parameter((node["dim"], width)),
            self.parameter((width, width), 0.4),
            self.parameter((width,)),
        )
        before = C.placeholder(shape=(width,), dynamic_axes=x.dynamic_axes)
        make = C.sequence.past_value if steps > 0 else C.sequence.future_value
        late = make(before, initial_state=self.number(node["initial"]), time_step=abs(steps))
        fresh = C.tanh(C.times(x, into) + C.times(late, back) + bias)
        if node["gated"]:
            gate = C.sigmoid(
                C.times(x, self.parameter((node["dim"], width))) + C.times(late, self.parameter((width, width), 0.4))
            )
            fresh = gate * fresh + (1 - gate) * late
        return fresh.replace_placeholders({before: fresh.output})

    def make_loss(self, node, x, y):
        return TWOS[node["op"]](x, y)

    def minibatch(self, samples, longest):
        found = {}
        lengths = [longest if self.spec["even"] else 1 + self.random.randint(longest) for _ in range(samples)]
        for variable, one in zip(self.inputs, self.spec["inputs"]):
            rows = []
            for length in lengths:
                frames = length if one["sequence"] else 1
                if one["sparse"]:
                    rows.append([int(word) for word in self.random.randint(one["shape"][0], size=frames)])
                else:
                    data = self.array([frames] + one["shape"])
                    rows.append(data if one["sequence"] else data[0])
            if one["sparse"] and one["sequence"]:
                found[variable] = C.Value.one_hot(rows, one["shape"][0], dtype=self.dtype)
            elif one["sparse"]:
                found[variable] = scipy.sparse.csr_matrix(
                    np.eye(one["shape"][0], dtype=self.dtype)[[row[0] for row in rows]]
                )
            else:
                found[variable] = rows if one["sequence"] else np.array(rows)
        return found

    def learner(self, parameters):
        spec = self.spec["learner"]
        rate = C.learning_parameter_schedule(spec["rate"], minibatch_size=spec["per"])
        common = {
            "l1_regularization_weight": spec["l1"],
            "l2_regularization_weight": spec["l2"],
            "gradient_clipping_threshold_per_sample": spec["clip"] or np.inf,
            "gradient_clipping_with_truncation": spec["truncate"],
        }
        momentum = C.momentum_schedule(spec["momentum"], minibatch_size=spec["per"])
        kind = spec["kind"]
        if kind == "sgd":
            return C.sgd(parameters, rate, **common)
        if kind in ("momentum_sgd", "nesterov"):
            return getattr(C, kind)(parameters, rate, momentum, unit_gain=spec["unit"], **common)
        if kind == "adagrad":
            return C.adagrad(parameters, rate, need_ave_multiplier=spec["unit"], **common)
        if kind == "rmsprop":
            return C.rmsprop(parameters, rate, 0.95, 1.2, 0.7, 10.0, 1e-4, need_ave_multiplier=spec["unit"], **common)
        if kind == "adadelta":
            return C.adadelta(parameters, rate, **common)
        second = C.momentum_schedule(0.99, minibatch_size=spec["per"])
        make = C.adam if kind == "adam" else C.fsadagrad
        return make(parameters, rate, momentum, unit_gain=spec["unit"], variance_momentum=second, **common)


def numbers(value):
    """An array, a list of arrays or a sparse one as shapes and numbers."""
    if isinstance(value, (list, tuple)):
        return [numbers(one) for one in value]
    if hasattr(value, "asarray"):
        value = value.asarray()
    if hasattr(value, "todense"):
        value = value.todense()
    value = np.asarray(value, np.float64)
    return {"shape": list(value.shape), "data": [float("%.12g" % one) for one in value.ravel()]}


def run(spec):
    case = Case(spec)
    found = {}
    values = case.build()
    loss, wanted = values[-1], [values[i] for i in spec["shown"]]
    found["shapes"] = [list(one.shape) for one in wanted]
    data = case.minibatch(spec["samples"], spec["longest"])
    for place, one in zip(spec["shown"], wanted):
        given = {v: data[v] for v in one.arguments} if one.arguments else {}
        found["value %d" % place] = numbers(one.eval(given))
    used = {v: data[v] for v in loss.arguments}
    sources = list(loss.parameters) + [v for v in loss.arguments if not v.is_sparse]
    sources = sorted(sources, key=lambda v: v.name)
    if sources and not any(one["sparse"] for one in spec["inputs"]):  # the original refuses, but in training
        gradients = loss.grad(used, wrt=sources)
        gradients = gradients if isinstance(gradients, dict) else {sources[0]: gradients}
        for source in sources:
            found["gradient of " + source.name] = numbers(gradients[source])
    if loss.parameters:
        trained = sorted(loss.parameters, key=lambda v: v.name)
        trainer = C.Trainer(loss, (loss, loss), [case.learner(trained)])
        for step, (samples, longest) in enumerate(spec["steps"]):
            data = case.minibatch(samples, longest)
            trainer.train_minibatch({v: data[v] for v in loss.arguments})
            found["loss %d" % step] = numbers([trainer.previous_minibatch_loss_average])
            found["count %d" % step] = numbers([trainer.previous_minibatch_sample_count])
        for one in trained:
            found["trained " + one.name] = numbers(one.value)
        last = values[spec["shown"][-1]]
        given = {v: data[v] for v in last.arguments} if last.arguments else {}
        found["value afterwards"] = numbers(last.eval(given))
    return found


def main(cases, results, first):
    with open(cases) as lines:
        specs = [json.loads(line) for line in lines]
    with open(results, "a") as out:
        for number, spec in enumerate(specs):
            if number < first:
                continue
            out.write(json.dumps({"begun": number}) + "\n")
            out.flush()
            try:
                said = {"number": number, "found": run(spec)}
            except Exception as error:
                said = {"number": number, "refused": "%s: %s" % (type(error).__name__, str(error)[:600])}
            out.write(json.dumps(said) + "\n")
            out.flush()


if __name__ == "__main__":
    C.device.try_set_default_device(C.device.cpu())
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
