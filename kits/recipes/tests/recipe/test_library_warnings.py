"""Warnings of Python's logger ``cntk`` stand in the log of a run, and only while it runs."""

from __future__ import annotations

import logging

from cntk_kit_recipes.recipe.log import Log, library_warnings


def test_they_go_where_the_log_goes(tmp_path, capsys):
    log = Log()
    log.redirect(str(tmp_path / "log"))
    logger = logging.getLogger("cntk.engine")
    with library_warnings(log):
        logger.warning("compiled %s are not kept", "kernels")
        logger.info("compiling")
    log.close()
    assert (tmp_path / "log").read_text() == "Warning: compiled kernels are not kept\n"
    assert capsys.readouterr().err == f"Redirecting stderr to file {tmp_path}/log\n"
    assert logging.getLogger("cntk").handlers == []
