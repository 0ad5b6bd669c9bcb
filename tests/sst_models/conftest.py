import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def sst_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the element library for the SST on the PATH; built for the session if not current."""
    if shutil.which("sst") is None:
        pytest.skip("no program sst on the PATH")
    from sst_models import build, locate

    installation = locate.find()
    installation.require("merlin")
    usual = build.library_dir(installation)
    if build.is_current(installation, usual):
        return usual
    return build.build(installation, tmp_path_factory.mktemp("library"))
