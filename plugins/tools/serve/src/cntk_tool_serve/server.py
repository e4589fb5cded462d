"""What ``cntk serve`` does."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

import uvicorn

from cntk_core.api import DataError, UsageError
from cntk_core.api.recipes import ModelFiles, PluginManager
from cntk_core.api.training import Model
from cntk_tool_serve.app import Limits, Service

_BACKLOG = 2048
"""Connections that wait to be taken."""


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal comes; return the exit code.

    Raises:
        CntkError: the model cannot be read, an option makes no sense, or the address cannot be listened at.
    """
    for name in ("batch", "queue", "body", "timeout"):
        if getattr(options, name) <= 0:
            raise UsageError(f"--{name} must be greater than 0, not {getattr(options, name):g}")
    if not 0 <= options.port < 65536:
        raise UsageError(f"--port must be from 0 to 65535, not {options.port}")
    plugins = PluginManager(options.plugin)
    model = Model(ModelFiles(plugins.registry).load(options.model), engine=options.engine, plugins=plugins)
    limits = Limits(options.batch, options.queue, int(options.body * 1e6), options.timeout)
    service = Service(model, options.node, Path(options.model).name, limits)
    if options.check:
        print(f"{options.model}: {service.check()}")
        return 0
    with _listen(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"{options.model}: http://{shown}:{port}/  (Ctrl-C ends)", flush=True)
        config = uvicorn.Config(service.app(), log_level="warning", access_log=False, timeout_graceful_shutdown=10)
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise DataError(f"cannot listen at {host}: {error.strerror or error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)  # whoever comes from now on waits, until the server is there
    except OSError as error:
        listener.close()
        raise DataError(
            f"cannot listen at {host}, port {port}: {(error.strerror or str(error)).lower()}",
            hint="--port names another one; 0 takes one that is free.",
        ) from None
    return listener
