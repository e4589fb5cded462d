"""The manifest for the MPI operator: what the operator needs of it, and that it runs what our pages say."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_manifest_of_the_mpi_operator(root: Path) -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((root / "packaging/kubernetes/mpijob.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"], job["metadata"]["name"]) == (
        "kubeflow.org/v2beta1",
        "MPIJob",
        "cntk-training",
    )
    spec = job["spec"]
    assert set(spec) == {"slotsPerWorker", "mpiImplementation", "runPolicy", "mpiReplicaSpecs"}
    replicas = spec["mpiReplicaSpecs"]
    assert set(replicas) == {"Launcher", "Worker"}
    assert replicas["Launcher"]["replicas"] == 1
    pods = {name: each["template"]["spec"] for name, each in replicas.items()}
    for pod in pods.values():
        (container,) = pod["containers"]
        assert {"name", "image", "volumeMounts"} <= set(container)
        assert [each["name"] for each in container["volumeMounts"]] == [each["name"] for each in pod["volumes"]]
    (launcher,) = pods["Launcher"]["containers"]
    words = launcher["args"]
    assert launcher["command"] == ["mpiexec"]
    assert int(words[words.index("-n") + 1]) == replicas["Worker"]["replicas"] * spec["slotsPerWorker"]
    assert words[words.index("cntk") :] == ["cntk", "configFile=recipe.cntk", "parallelTrain=true"]
    assert launcher["workingDir"] == launcher["volumeMounts"][0]["mountPath"], "the recipe lies on the volume"
