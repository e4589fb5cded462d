"""On which disks a lock of the system is one for everybody."""

from __future__ import annotations

import pytest

from cntk_kit_recipes.locks.disks import kernel_knows_all

LINE = "36 35 98:0 / {point} rw,noatime master:1 - {kind} server:/home {options}\n"


@pytest.mark.parametrize(
    ("kind", "options", "known"),
    [
        ("ext4", "rw", True),
        ("nfs4", "rw,vers=4.2,local_lock=none,addr=10.0.0.1", True),
        ("nfs", "rw,vers=3,local_lock=none", True),
        ("nfs", "rw,vers=3,nolock,local_lock=all", False),
        ("lustre", "rw,flock", True),
        ("lustre", "rw,localflock", False),
        ("lustre", "rw", False),
        ("gpfs", "rw", True),
        ("ceph", "rw", True),
        ("fuse.sshfs", "rw", False),
        ("beegfs", "rw", False),
    ],
)
def test_disks(tmp_path, kind, options, known):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        LINE.format(point="/", kind="fuse.x", options="rw")
        + "a line that nobody understands\n"
        + LINE.format(point=str(tmp_path).replace("-", "\\055"), kind=kind, options=options)
        + LINE.format(point=f"{tmp_path}/other", kind="fuse.x", options="rw")
    )
    (tmp_path / "other-folder").mkdir()
    assert kernel_knows_all(tmp_path, mounts) is known
    assert kernel_knows_all(tmp_path / "other-folder", mounts) is known


def test_nobody_says_what_is_mounted(tmp_path):
    assert not kernel_knows_all(tmp_path, tmp_path / "nothing")


def test_the_folder_that_is_there(tmp_path):
    assert kernel_knows_all(tmp_path) in (True, False)
