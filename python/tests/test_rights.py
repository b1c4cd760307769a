"""What root may do here."""

from pathlib import Path

import pytest

from wifu import places
from wifu import plan as plans
from wifu.errors import LabError, PlanError


def test_root_without_rights_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(places, "rights", lambda: 1 << 12)
    with pytest.raises(LabError, match=r"needs CAP_SYS_ADMIN, which root has not here.*doctor"):
        places.need_root("--on emu")
    monkeypatch.setattr(places, "rights", lambda: -1)
    places.need_root("--on emu")


def test_a_file_of_compositions_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[protocol.mine]\nbase = "tcp-newreno"\n')
    with pytest.raises(PlanError, match=r"protocol: belongs in a file of compositions"):
        plans.load(tmp_path / "mine.toml", [])
