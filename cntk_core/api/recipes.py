"""The kit of authors of actions, verbs and tools: what a recipe says, how it is run, what a session is made of.

It opens more of the core than the other doors, for tools that need it; expect it to change with a minor version.
"""

from __future__ import annotations

from cntk_core.config import load_recipe, option_key
from cntk_core.contract.host_program import compile_plan
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.model_formats import ModelFiles
from cntk_core.training.loop.update import compose_update
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block.parallel_block import KEY as PARALLEL_KEY
from cntk_kit_recipes.block.parallel_block import read_parallel
from cntk_kit_recipes.block.sgd_block import learner_name
from cntk_kit_recipes.cli.arguments import add_overrides, add_recipe, recipe_arguments
from cntk_kit_recipes.launch.launcher import launch
from cntk_kit_recipes.recipe.context import ActionContext as RecipeContext
from cntk_kit_recipes.recipe.descriptions import languages
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.jobs import Job as RecipeJob
from cntk_kit_recipes.recipe.jobs import check_jobs, check_top_level, find_jobs
from cntk_kit_recipes.recipe.log import Log
from cntk_kit_recipes.recipe.opening import open_recipe
from cntk_kit_recipes.recipe.prepared import PreparedTraining, prepare_training
from cntk_kit_recipes.recipe.ranks import connect, detect, disconnect
from cntk_kit_recipes.recipe.reader_around import ReaderAround
from cntk_kit_recipes.recipe.run_plugins import make_plugins
from cntk_kit_recipes.recipe.test import check_evaluation, evaluate_on_reader, evaluation_nodes, inputs_of
from cntk_kit_recipes.recipe.train import check_readers, settings_of, train
from cntk_kit_recipes.recipe.write import NodeValues
from cntk_kit_recipes.session.epoch import EpochLoop
from cntk_kit_recipes.session.epoch_progress import Pace
from cntk_kit_recipes.session.minibatch_factors import for_factors
from cntk_kit_recipes.session.precompute import precompute
from cntk_kit_recipes.session.trained_nodes import choose_criteria
from cntk_kit_recipes.verbs.run import run_action

KIT_VERSION = "0.3"
"""Version of this kit. Below 1.0 names may change with its minor."""

__all__ = [
    "KIT_VERSION",
    "PARALLEL_KEY",
    "EpochLoop",
    "Log",
    "ModelFiles",
    "NodeValues",
    "Pace",
    "PluginManager",
    "PreparedTraining",
    "ReaderAround",
    "RecipeContext",
    "RecipeJob",
    "SGDSettings",
    "add_overrides",
    "add_recipe",
    "check_evaluation",
    "check_jobs",
    "check_readers",
    "check_top_level",
    "choose_criteria",
    "compile_plan",
    "compose_update",
    "connect",
    "detect",
    "disconnect",
    "evaluate_on_reader",
    "evaluation_nodes",
    "find_jobs",
    "for_factors",
    "inputs_of",
    "languages",
    "launch",
    "learner_name",
    "load_recipe",
    "make_plugins",
    "open_recipe",
    "option_key",
    "precompute",
    "prepare_training",
    "read_parallel",
    "recipe_arguments",
    "run_action",
    "run_recipe",
    "settings_of",
    "train",
]
