"""Entry point: `python path/to/speech`, with bystander installed or not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_NAME = "speech_worker"


def _import_folder() -> None:
    """Make the folder of this file a package, so that its modules find each other wherever it was copied to."""
    folder = Path(__file__).resolve().parent
    # Python put the folder first on its path: `import x` would find its modules instead of packages of their names.
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != folder]
    spec = importlib.util.spec_from_file_location(
        _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)


if sys.version_info < (3, 11):  # noqa: UP036 - run by the Python of another environment
    sys.exit("The speech worker needs Python 3.11 or newer.")
if not __package__:
    _import_folder()
    __package__ = _NAME
importlib.import_module(f"{__package__}.program").main()
