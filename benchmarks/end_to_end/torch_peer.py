"""The same trainings as honest PyTorch scripts: read the same files, train as many epochs, save the model.

python torch_peer.py {mlp|speech|speech_lstm|tagger|words|images} FOLDER EPOCHS [SCALE]
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def main() -> None:
    """Train what the command line says."""
    name, folder, epochs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    trainings = (mlp, speech, speech_lstm, tagger, words, images)
    model = {training.__name__: training for training in trainings}[name](folder, epochs)
    torch.save(model.state_dict(), folder / "torch.pt")


def layers(*sizes: int) -> nn.Sequential:
    """Return a network of sigmoid layers with a linear one at the end."""
    found: list[nn.Module] = []
    for before, size in itertools.pairwise(sizes):
        found += [nn.Linear(before, size), nn.Sigmoid()]
    return nn.Sequential(*found[:-1])


def train_frames(
    model: nn.Module, data: torch.Tensor, labels: torch.Tensor, size: int, epochs: int, rate: float
) -> None:
    """Train on independent frames in random order."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate * size, momentum=0.9, dampening=0.9, fused=True)
    for _ in range(epochs):
        total = torch.zeros(())
        for rows in torch.randperm(len(data)).split(size):
            loss = nn.functional.cross_entropy(model(data[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(rows)
        print(f"loss {total.item() / len(data):.5f}", flush=True)


def mlp(folder: Path, epochs: int) -> nn.Module:
    """Read the text with pandas."""
    import pandas

    columns = [*range(1, 11), *range(12, 796)]
    table = pandas.read_csv(folder / "train.ctf", sep=" ", header=None, usecols=columns, dtype=np.float32).to_numpy()
    model = layers(784, 256, 10)
    pixels = torch.from_numpy(table[:, 10:] * np.float32(sys.argv[4]))
    train_frames(model, pixels, torch.from_numpy(table[:, :10].argmax(axis=1)), 32, epochs, 0.01)
    return model


def read_speech(folder: Path) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Read HTK's files with NumPy, labels line by line; return the windows and states of each utterance."""
    states = {name: number for number, name in enumerate((folder / "states.list").read_text().split())}
    classes: dict[str, list[int]] = {}
    for line in (folder / "labels.mlf").read_text().splitlines()[1:]:
        if line.startswith('"'):
            own = classes[line.strip('"').removesuffix(".lab")] = []
        elif line != ".":
            begin, end, name = line.split()
            own += [states[name]] * ((int(end) - int(begin)) // 100_000)
    found = []
    for line in (folder / "train.scp").read_text().splitlines():
        name, path = line.split("=")
        raw = Path(path.partition("[")[0]).read_bytes()
        frames = np.frombuffer(raw, ">f4", offset=12).astype(np.float32).reshape(-1, 33)
        near = np.clip(np.arange(len(frames))[:, None] + np.arange(-5, 6), 0, len(frames) - 1)
        windows = torch.from_numpy(frames[near].reshape(len(frames), -1))
        found.append((windows, torch.tensor(classes[name.removesuffix(".fea")])))
    return found


def speech(folder: Path, epochs: int) -> nn.Module:
    """Train on all frames, in random order."""
    windows, states = (torch.cat(list(one)) for one in zip(*read_speech(folder), strict=True))
    model = layers(363, 512, 512, 132)
    train_frames(model, windows, states, 256, epochs, 0.003)
    return model


class Recurrent(nn.Module):
    """LSTM layers and a linear one, behind an embedding if there are words."""

    def __init__(self, dim: int, hidden: int, classes: int, layers: int = 1, words: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words + 1, dim, padding_idx=words) if words else nn.Identity()
        self.lstm = nn.LSTM(dim, hidden, layers, batch_first=True)
        self.linear = nn.Linear(hidden, classes)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes, ``(sequences, steps, classes)``."""
        return self.linear(self.lstm(self.embedding(data))[0])


def train_sequences(
    model: nn.Module,
    data: list[tuple[torch.Tensor, torch.Tensor]],
    size: int,
    epochs: int,
    rate: float,
    momentum: float,
    padding: float = 0.0,
) -> None:
    """Train on whole sequences in random order, padded side by side, as many as have about ``size`` steps."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate * size, momentum=momentum, dampening=momentum, fused=True)
    spare = sum(len(labels) for _, labels in data) // len(data) // 2  # the next sequence would be more than `size`
    for _ in range(epochs):
        total, count, batch, steps = 0.0, 0, [], 0
        order = torch.randperm(len(data)).tolist()
        for place, number in enumerate(order):
            batch.append(data[number])
            steps += len(data[number][1])
            if steps < size - spare and place < len(order) - 1:
                continue
            given = nn.utils.rnn.pad_sequence([one for one, _ in batch], batch_first=True, padding_value=padding)
            labels = nn.utils.rnn.pad_sequence([one for _, one in batch], batch_first=True, padding_value=-100)
            loss = nn.functional.cross_entropy(model(given).flatten(0, 1), labels.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total, count, batch, steps = total + loss.item() * steps, count + steps, [], 0
        print(f"loss {total / count:.5f}", flush=True)


def speech_lstm(folder: Path, epochs: int) -> nn.Module:
    """Train on whole utterances."""
    model = Recurrent(363, 256, 132, layers=2)
    train_sequences(model, read_speech(folder), 2800, epochs, 0.0005, 0.9)
    return model


def read_sentences(folder: Path) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Read sparse text line by line; return the words of each sentence, and what is learned of them."""
    sentences: dict[str, tuple[list[int], list[int]]] = {}
    for line in (folder / "train.ctf").read_text().splitlines():
        key, _, word, _, target = line.split()
        words, targets = sentences.setdefault(key, ([], []))
        words.append(int(word[:-2]))
        targets.append(int(target[:-2]))
    return [(torch.tensor(words), torch.tensor(targets)) for words, targets in sentences.values()]


def tagger(folder: Path, epochs: int) -> nn.Module:
    """Train on sentences and their tags."""
    model = Recurrent(150, 300, 129, words=943)
    train_sequences(model, read_sentences(folder), 70, epochs, 0.003, 0.7, padding=943)
    return model


def words(folder: Path, epochs: int) -> nn.Module:
    """Train on sentences and the words that follow."""
    model = Recurrent(150, 200, 10_000, words=10_000)
    train_sequences(model, read_sentences(folder), 256, epochs, 0.002, 0.0, padding=10_000)
    return model


def normalized(before: int, maps: int, size: int, stride: int) -> list[nn.Module]:
    """Return a convolution without bias, and batch normalization."""
    conv = nn.Conv2d(before, maps, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return [conv, nn.BatchNorm2d(maps)]


class Block(nn.Module):
    """Two convolutions, and what goes around them."""

    def __init__(self, before: int, maps: int) -> None:
        super().__init__()
        stride = maps // before
        inner, outer = normalized(before, maps, 3, stride), normalized(maps, maps, 3, 1)
        self.inside = nn.Sequential(*inner, nn.ReLU(inplace=True), *outer)
        self.shortcut = nn.Sequential(*(normalized(before, maps, 1, stride) if stride > 1 else []))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the maps of the block."""
        return nn.functional.relu(self.inside(x) + self.shortcut(x), inplace=True)


def images(folder: Path, epochs: int) -> nn.Module:
    """Decode all files once with Pillow, take parts at random; channels last, which is PyTorch's fastest."""
    from PIL import Image

    lines = [line.split("\t") for line in (folder / "map.txt").read_text().splitlines()]
    pixels = torch.from_numpy(np.stack([np.asarray(Image.open(path)) for path, _ in lines]))
    labels = torch.tensor([int(label) for _, label in lines])
    maps = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(before, after) for before, after in itertools.pairwise(maps)]
    first = [*normalized(3, 16, 3, 1), nn.ReLU(inplace=True)]
    model = nn.Sequential(*first, *blocks, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10))
    model = model.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.9, fused=True)
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(pixels)).split(128):
            chosen = pixels[rows]
            places = torch.randint(0, 9, (len(rows), 2)).tolist()
            parts = [one[y : y + 32, x : x + 32] for one, (y, x) in zip(chosen, places, strict=True)]
            parts = [one.flip(1) if turn else one for one, turn in zip(parts, torch.rand(len(rows)) < 0.5, strict=True)]
            loss = nn.functional.cross_entropy(model(torch.stack(parts).permute(0, 3, 1, 2).float()), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(rows)
        print(f"loss {total / len(pixels):.5f}", flush=True)
    return model


if __name__ == "__main__":
    main()
