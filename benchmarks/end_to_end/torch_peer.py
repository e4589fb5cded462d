"""The same trainings as honest PyTorch scripts: read the same files, train as many epochs, save the model.

python torch_peer.py {mlp|tagger|speech} FOLDER EPOCHS [SCALE]
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
    model = {"mlp": mlp, "tagger": tagger, "speech": speech}[name](folder, epochs)
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


def speech(folder: Path, epochs: int) -> nn.Module:
    """Read HTK's files with NumPy, labels line by line."""
    states = {name: number for number, name in enumerate((folder / "states.list").read_text().split())}
    classes: dict[str, list[int]] = {}
    for line in (folder / "labels.mlf").read_text().splitlines()[1:]:
        if line.startswith('"'):
            own = classes[line.strip('"').removesuffix(".lab")] = []
        elif line != ".":
            begin, end, name = line.split()
            own += [states[name]] * ((int(end) - int(begin)) // 100_000)
    data, labels = [], []
    for line in (folder / "train.scp").read_text().splitlines():
        name, path = line.split("=")
        raw = Path(path.partition("[")[0]).read_bytes()
        frames = np.frombuffer(raw, ">f4", offset=12).astype(np.float32).reshape(-1, 33)
        near = np.clip(np.arange(len(frames))[:, None] + np.arange(-5, 6), 0, len(frames) - 1)
        data.append(frames[near].reshape(len(frames), -1))
        labels += classes[name.removesuffix(".fea")]
    model = layers(363, 512, 512, 132)
    train_frames(model, torch.from_numpy(np.concatenate(data)), torch.tensor(labels), 256, epochs, 0.003)
    return model


class Tagger(nn.Module):
    """An embedding, an LSTM and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(944, 150, padding_idx=943)
        self.lstm = nn.LSTM(150, 300, batch_first=True)
        self.linear = nn.Linear(300, 129)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the scores of the tags, ``(sentences, words, tags)``."""
        return self.linear(self.lstm(self.embedding(words))[0])


def tagger(folder: Path, epochs: int) -> nn.Module:
    """Read the text line by line; sentences side by side are padded, about 70 words of them in a minibatch."""
    sentences: dict[str, tuple[list[int], list[int]]] = {}
    for line in (folder / "train.ctf").read_text().splitlines():
        key, _, word, _, tag = line.split()
        words, tags = sentences.setdefault(key, ([], []))
        words.append(int(word[:-2]))
        tags.append(int(tag[:-2]))
    data = [(torch.tensor(words), torch.tensor(tags)) for words, tags in sentences.values()]
    model = Tagger()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.003 * 70, momentum=0.7, dampening=0.7, fused=True)
    for _ in range(epochs):
        total, count, batch, size = 0.0, 0, [], 0
        order = torch.randperm(len(data)).tolist()
        for place, number in enumerate(order):
            batch.append(data[number])
            size += len(data[number][0])
            if size < 63 and place < len(order) - 1:  # the next of about 12 words would be more than 70
                continue
            words = nn.utils.rnn.pad_sequence([one for one, _ in batch], batch_first=True, padding_value=943)
            tags = nn.utils.rnn.pad_sequence([one for _, one in batch], batch_first=True, padding_value=-100)
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), tags.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total, count, batch, size = total + loss.item() * size, count + size, [], 0
        print(f"loss {total / count:.5f}", flush=True)
    return model


if __name__ == "__main__":
    main()
