"""Where a cgroup's folder lies, on machines of every kind."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.sandbox.cgroups import hierarchy
from fib_rmsnorm.sandbox.cgroups.hierarchy import (
    Mount,
    NoCgroupError,
    find_own_folder,
    folders_of,
    path_of,
    read_mounts,
    read_path,
)

ROOT = "23 1 254:0 / / rw,relatime - ext4 /dev/root rw"
PURE = f"""{ROOT}
29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate
"""
HYBRID = f"""{ROOT}
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
LEGACY = HYBRID.replace("cgroup2 cgroup2", "tmpfs none")
# A mount made in the namespace of the host, where the container's cgroup is not the root.
NESTED = "40 30 0:26 /system.slice/box.scope /sys/fs/cgroup ro,nosuid master:9 - cgroup2 cgroup rw\n"
OF_HOST = NESTED.replace("/system.slice/box.scope", "/../..")
OWN_OF_HYBRID = "9:name=systemd:/user\n8:pids:/user\n0::/\n"
OWN_OF_SCOPE = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n"


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "folders"),
    [
        (PURE, OWN_OF_SCOPE, [f"/sys/fs/cgroup{OWN_OF_SCOPE[3:-1]}"]),
        (PURE, "0::/\n", ["/sys/fs/cgroup"]),
        (HYBRID, OWN_OF_HYBRID, ["/sys/fs/cgroup/unified"]),
        (LEGACY, OWN_OF_HYBRID, []),
        (ROOT, OWN_OF_HYBRID, []),
        (NESTED, "0::/system.slice/box.scope/worker\n", ["/sys/fs/cgroup/worker"]),
        (NESTED, "0::/system.slice/box.scope\n", ["/sys/fs/cgroup"]),
        (NESTED, "0::/system.slice/boxer.scope\n", []),
        (NESTED, "0::/\n", []),
        (OF_HOST, "0::/\n", []),
        (NESTED + PURE, "0::/system.slice/box.scope\n", ["/sys/fs/cgroup/system.slice/box.scope", "/sys/fs/cgroup"]),
        (PURE, "0::/gone (deleted)\n", ["/sys/fs/cgroup/gone"]),
    ],
    ids=[
        *("pure", "a container's root", "hybrid", "version 1", "no mount", "nested", "a nested root"),
        *("a longer name", "outside of the mount", "the host's", "two mounts", "deleted"),
    ],
)
def test_the_folder_of_a_cgroup(mountinfo, cgroup, folders):
    assert [*map(str, folders_of(read_path(cgroup), read_mounts(mountinfo)))] == folders


@pytest.mark.parametrize("cgroup", ["", "8:pids:/user\n", "0::/../other\n", "0::/..\n", "0::\n", "10::/\n"])
def test_no_cgroup_v2_of_ours(cgroup):
    assert read_path(cgroup) is None


def escape(path: str) -> str:
    """As the kernel writes a path in mountinfo."""
    return "".join(f"\\{ord(each):03o}" if each in " \t\n\\" else each for each in path)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))


@given(root=PATHS, point=PATHS, below=st.lists(NAMES.filter(lambda name: "\n" not in name), max_size=3))
def test_any_folder_is_found_from_what_the_kernel_writes(root, point, below):
    line = f"41 31 0:38 {escape(root)} {escape(point)} rw,relatime shared:1 master:2 - cgroup2 cgroup2 rw"
    mounts = read_mounts(f"{ROOT}\n{line}\n")
    assert mounts == [Mount(root, Path(point))]
    assert folders_of(PurePosixPath(root, *below), mounts) == [Path(point, *below)]


@given(st.text(max_size=200))
def test_no_text_is_a_traceback(text):
    for each in folders_of(read_path(text) or PurePosixPath("/"), read_mounts(text)):
        assert ".." not in each.parts[1:] or ".." in text


def test_our_own_folder_holds_us_or_there_is_a_reason():
    try:
        folder = find_own_folder()
    except NoCgroupError as reason:
        assert "mounted here" in str(reason)
    else:
        assert str(os.getpid()) in (folder / "cgroup.procs").read_text().split()


def test_a_folder_that_does_not_hold_us_is_not_ours(monkeypatch, tmp_path):
    (tmp_path / "cgroup.procs").write_text("1\n")
    (tmp_path / "mountinfo").write_text(f"41 31 0:38 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    monkeypatch.setattr(hierarchy, "_MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(hierarchy, "path_of", lambda _: PurePosixPath("/"))
    with pytest.raises(NoCgroupError, match="the cgroup of this process is not mounted here"):
        find_own_folder()


def test_who_has_ended_has_no_cgroup():
    assert path_of(2**30) is None
