"""The recipe of the README, with the function beside it: run, stopped inside an epoch, resumed."""

from __future__ import annotations

import re
from pathlib import Path

from cntk_testing import README, RecipeContract

PAGE = Path(__file__).parents[1] / "README.md"


class TestReadme(RecipeContract):
    recipe = README
    recipe_key = "PythonNetworkBuilder"

    def files(self, folder: Path) -> None:
        super().files(folder)
        (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        (folder / "networks.py").write_text(code, encoding="utf-8")
