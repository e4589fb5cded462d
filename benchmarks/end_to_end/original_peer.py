"""The same trainings with the original's Python, release 2.7.

python original_peer.py {mlp|tagger|speech} FOLDER EPOCHS [SCALE]
"""

import sys

import cntk
from cntk.io import (
    CTFDeserializer,
    HTKFeatureDeserializer,
    HTKMLFDeserializer,
    MinibatchSource,
    StreamDef,
    StreamDefs,
)
from cntk.layers import LSTM, Dense, Embedding, Recurrence, Sequential


def main():
    """Train what the command line says."""
    name, folder, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cntk.device.try_set_default_device(cntk.device.cpu())
    cntk.cntk_py.set_fixed_random_seed(1)
    {"mlp": mlp, "tagger": tagger, "speech": speech}[name](folder, epochs)


def train(folder, model, features, labels, source, size, epochs, rate, momentum):
    """Train, print the loss of each epoch, save."""
    loss = cntk.cross_entropy_with_softmax(model, labels)
    rates = cntk.learning_parameter_schedule_per_sample(rate)
    learner = cntk.momentum_sgd(model.parameters, rates, cntk.momentum_schedule(momentum))
    printer = cntk.logging.ProgressPrinter(num_epochs=epochs)
    trainer = cntk.Trainer(model, (loss, None), learner, [printer])
    streams = {features: source.streams.features, labels: source.streams.labels}
    for _ in range(epochs):
        while True:
            data = source.next_minibatch(size, streams)
            if not data:
                break
            trainer.train_minibatch(data)
            if data[labels].sweep_end:
                break
        trainer.summarize_training_progress()
    model.save(folder + "/original.dnn")


def mlp(folder, epochs):
    """Digits from text."""
    features, labels = cntk.input_variable(784), cntk.input_variable(10)
    model = Sequential([Dense(256, activation=cntk.sigmoid), Dense(10)])(features * float(sys.argv[4]))
    streams = StreamDefs(features=StreamDef("features", shape=784), labels=StreamDef("labels", shape=10))
    source = MinibatchSource(CTFDeserializer(folder + "/train.ctf", streams), randomize=True)
    train(folder, model, features, labels, source, 32, epochs, 0.01, 0.9)


def tagger(folder, epochs):
    """Tags of words from text."""
    features = cntk.sequence.input_variable(943, is_sparse=True)
    labels = cntk.sequence.input_variable(129, is_sparse=True)
    model = Sequential([Embedding(150), Recurrence(LSTM(300)), Dense(129)])(features)
    streams = StreamDefs(
        features=StreamDef("w", shape=943, is_sparse=True), labels=StreamDef("t", shape=129, is_sparse=True)
    )
    source = MinibatchSource(CTFDeserializer(folder + "/train.ctf", streams), randomize=True)
    train(folder, model, features, labels, source, 70, epochs, 0.003, 0.7)


def speech(folder, epochs):
    """States of frames from HTK's files."""
    features, labels = cntk.input_variable(363), cntk.input_variable(132)
    hidden = {"activation": cntk.sigmoid}
    model = Sequential([Dense(512, **hidden), Dense(512, **hidden), Dense(132)])(features)
    frames = StreamDefs(features=StreamDef(shape=33, context=(5, 5), scp=folder + "/train.scp"))
    states = StreamDefs(labels=StreamDef(shape=132, mlf=folder + "/labels.mlf"))
    readers = [HTKFeatureDeserializer(frames), HTKMLFDeserializer(folder + "/states.list", states)]
    source = MinibatchSource(readers, randomize=True, frame_mode=True)
    train(folder, model, features, labels, source, 256, epochs, 0.003, 0.9)


if __name__ == "__main__":
    main()
