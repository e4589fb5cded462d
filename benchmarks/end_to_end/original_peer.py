"""The same trainings with the original's Python, release 2.7.

python original_peer.py {mlp|speech|speech_lstm|tagger|words|images} FOLDER EPOCHS [SCALE]
"""

import sys

import cntk
import numpy as np
from cntk.io import (
    CTFDeserializer,
    HTKFeatureDeserializer,
    HTKMLFDeserializer,
    MinibatchSource,
    StreamDef,
    StreamDefs,
)
from cntk.layers import (
    LSTM,
    AveragePooling,
    BatchNormalization,
    Convolution,
    Dense,
    Embedding,
    Recurrence,
    Sequential,
)


def main():
    """Train what the command line says."""
    name, folder, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cntk.device.try_set_default_device(cntk.device.cpu())
    cntk.cntk_py.set_fixed_random_seed(1)
    trainings = (mlp, speech, speech_lstm, tagger, words, images)
    {training.__name__: training for training in trainings}[name](folder, epochs)


def train(folder, model, features, labels, source, size, epochs, rate, momentum):
    """Train, print the loss of each epoch, save."""
    loss = cntk.cross_entropy_with_softmax(model, labels)
    rates = cntk.learning_parameter_schedule_per_sample(rate)
    learner = cntk.momentum_sgd(model.parameters, rates, cntk.momentum_schedule(momentum))
    printer = cntk.logging.ProgressPrinter(num_epochs=epochs)
    trainer = cntk.Trainer(model, (loss, None), learner, [printer])
    streams = {features: source.streams.features, labels: source.streams.labels}
    while True:
        data = source.next_minibatch(size, streams)
        if not data:
            break
        trainer.train_minibatch(data)
        if data[labels].sweep_end:
            trainer.summarize_training_progress()
    model.save(folder + "/original.dnn")


def mlp(folder, epochs):
    """Digits from text."""
    features, labels = cntk.input_variable(784), cntk.input_variable(10)
    model = Sequential([Dense(256, activation=cntk.sigmoid), Dense(10)])(features * float(sys.argv[4]))
    streams = StreamDefs(features=StreamDef("features", shape=784), labels=StreamDef("labels", shape=10))
    source = MinibatchSource(CTFDeserializer(folder + "/train.ctf", streams), randomize=True, max_sweeps=epochs)
    train(folder, model, features, labels, source, 32, epochs, 0.01, 0.9)


def tagger(folder, epochs):
    """Tags of words from text."""
    features = cntk.sequence.input_variable(943, is_sparse=True)
    labels = cntk.sequence.input_variable(129, is_sparse=True)
    model = Sequential([Embedding(150), Recurrence(LSTM(300)), Dense(129)])(features)
    streams = StreamDefs(
        features=StreamDef("w", shape=943, is_sparse=True), labels=StreamDef("t", shape=129, is_sparse=True)
    )
    source = MinibatchSource(CTFDeserializer(folder + "/train.ctf", streams), randomize=True, max_sweeps=epochs)
    train(folder, model, features, labels, source, 70, epochs, 0.003, 0.7)


def words(folder, epochs):
    """Words that follow, from text."""
    features = cntk.sequence.input_variable(10000, is_sparse=True)
    labels = cntk.sequence.input_variable(10000, is_sparse=True)
    model = Sequential([Embedding(150), Recurrence(LSTM(200)), Dense(10000)])(features)
    streams = StreamDefs(
        features=StreamDef("w", shape=10000, is_sparse=True), labels=StreamDef("n", shape=10000, is_sparse=True)
    )
    source = MinibatchSource(CTFDeserializer(folder + "/train.ctf", streams), randomize=True, max_sweeps=epochs)
    train(folder, model, features, labels, source, 256, epochs, 0.002, 0)


def read_speech(folder, epochs, frame_mode):
    """Return a source of frames and states from HTK's files."""
    frames = StreamDefs(features=StreamDef(shape=33, context=(5, 5), scp=folder + "/train.scp"))
    states = StreamDefs(labels=StreamDef(shape=132, mlf=folder + "/labels.mlf"))
    readers = [HTKFeatureDeserializer(frames), HTKMLFDeserializer(folder + "/states.list", states)]
    return MinibatchSource(readers, randomize=True, max_sweeps=epochs, frame_mode=frame_mode)


def speech(folder, epochs):
    """States of frames from HTK's files."""
    features, labels = cntk.input_variable(363), cntk.input_variable(132)
    hidden = {"activation": cntk.sigmoid}
    model = Sequential([Dense(512, **hidden), Dense(512, **hidden), Dense(132)])(features)
    train(folder, model, features, labels, read_speech(folder, epochs, True), 256, epochs, 0.003, 0.9)


def speech_lstm(folder, epochs):
    """States of whole utterances from HTK's files."""
    features, labels = cntk.sequence.input_variable(363), cntk.sequence.input_variable(132)
    model = Sequential([Recurrence(LSTM(256)), Recurrence(LSTM(256)), Dense(132)])(features)
    train(folder, model, features, labels, read_speech(folder, epochs, False), 2800, epochs, 0.0005, 0.9)


def normalized(maps, size, stride):
    """Return a convolution without bias, and batch normalization."""
    start = cntk.initializer.he_normal()
    conv = Convolution((size, size), maps, init=start, pad=True, strides=stride, bias=False)
    return Sequential([conv, BatchNormalization(map_rank=1, normalization_time_constant=4096, use_cntk_engine=False)])


def block(x, maps, stride):
    """Return two convolutions of `x`, and what goes around them."""
    inside = Sequential([normalized(maps, 3, stride), cntk.relu, normalized(maps, 3, 1)])(x)
    return cntk.relu(inside + (normalized(maps, 1, stride)(x) if stride > 1 else x))


def images(folder, epochs):
    """A residual network of 20 layers, from PNG files."""
    features, labels = cntk.input_variable((3, 32, 32)), cntk.input_variable(10)
    x = cntk.relu(normalized(16, 3, 1)(features))
    for maps in (16, 32, 64):
        for number in range(3):
            x = block(x, maps, 2 if maps > 16 and number == 0 else 1)
    model = Dense(10)(AveragePooling((8, 8))(x))
    pixels, classes = read_images(folder)
    loss = cntk.cross_entropy_with_softmax(model, labels)
    learner = cntk.momentum_sgd(
        model.parameters, cntk.learning_parameter_schedule_per_sample(0.1 / 128), cntk.momentum_schedule(0.9)
    )
    trainer = cntk.Trainer(model, (loss, None), learner, [cntk.logging.ProgressPrinter(num_epochs=epochs)])
    random = np.random.RandomState(1)
    for _ in range(epochs):
        order = random.permutation(len(pixels))
        for begin in range(0, len(order), 128):
            rows = order[begin : begin + 128]
            places, turned = random.randint(0, 9, (len(rows), 2)), random.rand(len(rows)) < 0.5
            parts = [pixels[row, y : y + 32, x : x + 32] for row, (y, x) in zip(rows, places)]  # noqa: B905
            parts = [one[:, ::-1] if turn else one for one, turn in zip(parts, turned)]  # noqa: B905
            given = np.ascontiguousarray(np.stack(parts).transpose(0, 3, 1, 2), np.float32)
            trainer.train_minibatch({features: given, labels: classes[rows]})
        trainer.summarize_training_progress()
    model.save(folder + "/original.dnn")


def read_images(folder):
    """Decode all files with Pillow: the image reader of the release needs libraries that systems no longer have."""
    from PIL import Image

    with open(folder + "/map.txt") as file:
        lines = [line.rstrip().split("\t") for line in file]
    pixels = np.stack([np.asarray(Image.open(path)) for path, _ in lines])
    return pixels, np.eye(10, dtype=np.float32)[[int(label) for _, label in lines]]


if __name__ == "__main__":
    main()
