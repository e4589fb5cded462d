"""The action cv: the models of several epochs over one data set, and which is best."""

from __future__ import annotations

import time
from pathlib import Path

from cntk_core.api import Action, CntkError, Config, DataError, raise_problems
from cntk_core.api.recipes import RecipeContext, check_evaluation, evaluate_on_reader, evaluation_nodes


class CrossValidationAction(Action):
    """Evaluates the models of several epochs over one data set and says which is best."""

    requires_api = "1.0"
    name = "cv"
    needs_engine = True
    on_all_ranks = True

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        problems: list[CntkError] = [
            section.missing(key) for key in ("modelPath", "crossValidationInterval") if section.get(key) is None
        ]
        problems += check_evaluation(context, section)
        if section.get("crossValidationInterval") is not None:
            _interval(section)
        raise_problems(problems)

    def run(self, context: RecipeContext, section: Config) -> None:
        """Evaluate the models and say which is best by each criterion."""
        pause = section.integer("sleepTimeBetweenRuns", 0)
        results: list[tuple[str, list[float]]] = []
        for path in _models(context, section):
            network = context.load_model(path, section.location("modelPath"))
            nodes = evaluation_nodes(context, network, section)
            context.log.plain(f"Model {path} --> ")
            found = evaluate_on_reader(context, section, network, nodes, model=path)
            results.append((path, [criterion.average for criterion in found.values()]))
            time.sleep(pause)
        if not results:
            raise DataError(
                "No model is evaluated.",
                where=section.location("modelPath"),
                hint="crossValidationInterval names epochs, and modelPath.<epoch> are the files.",
            )
        context.log.plain("Best models:")
        context.log.plain("------------")
        for index in range(len(results[0][1])):
            path, averages = min(results, key=lambda result: result[1][index])
            context.log.plain(f"Based on Err[{index}]: Best model = {path} with min err {averages[index]:.8g}")


def _models(context: RecipeContext, section: Config) -> list[str]:
    """Return the files of the interval that exist; the final model stands in for the first that does not."""
    final = section.string("modelPath")
    paths = []
    for epoch in _interval(section):
        path = f"{final}.{epoch}"
        if not Path(path).exists():
            context.log.plain(f"Model {path} does not exist.")
            if final in paths or not Path(final).exists():
                continue
            path = final
        paths.append(path)
    return paths


def _interval(section: Config) -> range:
    value = section.require("crossValidationInterval")
    parts = value.array()
    if len(parts) != 3 or parts[1].integer() < 1:
        raise value.error("first:step:last", "Accepted: three epoch numbers such as 1:1:10; the step is at least 1.")
    first, step, last = (part.integer() for part in parts)
    return range(first, last + 1, step)
