"""Write the handwritten digits that scikit-learn has as CNTK text files: ``python make_data.py``."""

from __future__ import annotations

from pathlib import Path


def main(folder: Path = Path()) -> None:
    """Write ``train.ctf`` (1347 digits) and ``test.ctf`` (450)."""
    from cntk_tool_demo.data import write_digits

    train, test = write_digits(folder)
    print(f"{train} digits to learn from, {test} held out")


if __name__ == "__main__":
    main()
