"""Ask the network that the recipe has trained what it sees in digits that it has not learned from: python ask.py."""

import numpy as np

from cntk_core.api import Model

with open("test.ctf", encoding="utf-8") as file:
    lines = [file.readline() for _ in range(5)]
pictures = np.array([line.split("|features ")[1].split() for line in lines], np.float32)
model = Model.load("run/digits.dnn")
scores = model.evaluate({"features": pictures})["HLast"].reshape(5, 10)
for picture, digit in zip(pictures, scores.argmax(axis=1), strict=True):
    for row in picture.reshape(8, 8):
        print("   ", "".join(" .:-=+*#@"[round(8 * pixel)] * 2 for pixel in row))
    print(f"  a {digit}\n")
