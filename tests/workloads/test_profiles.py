"""Permission profiles as people and ToolHive write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.workloads.profile import NETWORK, NONE, InvalidProfile
from mooring.workloads.profile_reading import mounts_of, read_profile

TOOLHIVE = {
    "name": "github",
    "read": ["/srv/a", "/srv/b:/inside"],
    "write": None,
    "privileged": False,
    "network": {
        "mode": "bridge",
        "outbound": {
            "insecure_allow_all": False,
            "allow_transport": ["tcp"],
            "allow_host": [".github.com"],
            "allow_port": [443],
        },
        "inbound": {"allow_host": ["localhost"]},
    },
}


def test_the_built_in_profiles_have_names() -> None:
    assert read_profile("none", Path("/")) is NONE
    assert read_profile("network", Path("/")) is NETWORK


def test_a_file_of_toolhive_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "github.json").write_text(json.dumps(TOOLHIVE))
    profile = read_profile("github.json", tmp_path)
    assert profile.read == ("/srv/a", "/srv/b:/inside")
    assert profile.write == ()
    assert profile.network.outbound.allow_host == (".github.com",)
    assert profile.network.outbound.allow_port == (443,)
    assert profile.network.inbound.allow_host == ("localhost",)


def test_relative_paths_start_at_the_file_that_says_them(tmp_path: Path) -> None:
    profile = read_profile({"read": ["notes", "sub:/inside"], "write": ["~/x"]}, tmp_path)
    assert profile.read == (f"{tmp_path}/notes", f"{tmp_path}/sub:/inside")
    assert profile.write == (f"{Path.home()}/x",)


def test_a_writable_mount_takes_the_place_of_a_readable_one(tmp_path: Path) -> None:
    profile = read_profile({"read": ["/a:/x", "/b:/y"], "write": ["/a:/x", "volume://v"]}, tmp_path)
    mounts = {str(mount.inside): mount for mount in mounts_of(profile, tmp_path / "volumes")}
    assert mounts["/x"].writable
    assert not mounts["/y"].writable
    assert mounts["/volumes/v"].host == tmp_path / "volumes/v"
    assert (tmp_path / "volumes/v").is_dir()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"reed": []}, "`reed` is not a known key"),
        ({"network": {"outbond": {}}}, "`network.outbond` is not a known key"),
        ({"network": {"outbound": {"allow_hosts": []}}}, "`network.outbound.allow_hosts`"),
        ({"network": {"mode": "host"}}, "would go round the egress proxy"),
        ({"network": {"outbound": {"allow_host": ["http://x/"]}}}, "is not a host"),
        ({"network": {"outbound": {"allow_port": [0]}}}, "is not a port"),
        ({"read": ["/a:/b:/c"]}, "is not `path`"),
        ({"read": ["/a:b"]}, "absolute path inside"),
        ({"read": ["/a:/b/../c"]}, "without `..`"),
        ({"read": ["s3://bucket:/x"]}, "`s3://` mounts are not known"),
        ({"read": ["volume://../x:/x"]}, "is not the name of a volume"),
        ({"read": ["/a;rm"]}, "character no path needs"),
        ({"read": "/a"}, "cannot be read"),
        ("nowhere.json", "nor a file that exists"),
        (3, "must be"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(value: Any, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidProfile) as caught:
        read_profile(value, tmp_path)
    assert complaint in str(caught.value)
