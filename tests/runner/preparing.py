"""Prepares a tree in a process of its own, which a test can kill: python preparing.py MAIN TREE COMMAND."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deepwork.delivery.runner.workspace_setup import WorkspacePreparer, WorkspaceSettings
from deepwork.edge.server.application import Application
from deepwork.kernel.config import load_settings

if __name__ == "__main__":
    main, tree, command = sys.argv[1:]
    app = Application(load_settings(main, environment={}))
    settings = WorkspaceSettings(setup=(tuple(json.loads(command)),))
    WorkspacePreparer(app.database, "here").prepare(Path(main), Path(tree), settings)
