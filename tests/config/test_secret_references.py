"""`${secret:NAME}` in a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config.loading import ConfigError, load
from mooring.workloads.secrets.store import SecretPlaces, open_store, set_up

TEXT = """
mooring: 1
servers:
  - id: web
    upstream:
      url: https://x/mcp
      headers: {Authorization: "Bearer ${secret:token}", X: "$${secret:token}"}
"""


def test_a_secret_is_filled_in_from_the_store_and_an_escaped_one_is_not(tmp_path: Path) -> None:
    places = SecretPlaces(tmp_path / "mooring", {})
    set_up(places, "encrypted", "file")
    open_store(places).set("token", "${NOT_EXPANDED}")
    (tmp_path / "mooring.yaml").write_text(TEXT)
    config = load(tmp_path / "mooring.yaml", environment={"XDG_DATA_HOME": str(tmp_path)})
    assert config.servers[0].upstream is not None
    assert config.servers[0].upstream.headers == {
        "Authorization": "Bearer ${NOT_EXPANDED}",
        "X": "${secret:token}",
    }


def test_a_missing_secret_is_a_problem_with_its_line_and_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "mooring.yaml").write_text(TEXT)
    environment = {"XDG_DATA_HOME": str(tmp_path), "MOORING_SECRETS_PROVIDER": "environment"}
    with pytest.raises(ConfigError, match=r"there is no secret `token`.*mooring secret set token"):
        load(tmp_path / "mooring.yaml", environment=environment)
    with pytest.raises(ConfigError, match="run `mooring secret setup`"):
        load(tmp_path / "mooring.yaml", environment={"XDG_DATA_HOME": str(tmp_path)})
