"""An executor of Spark on Kubernetes, from the variables that Spark writes into its pod.

Spark's own images do the same in a shell script, which the wheel of pyspark does not have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deltabook.cluster.daemons import Launch, spark_home
from deltabook.cluster.errors import ClusterError
from runtime.spark.java import find_java

__all__ = ["executor_launch"]

_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"


def executor_launch(environ: Mapping[str, str], directory: Path) -> Launch:
    """What a pod has to start; raises `ClusterError` for a variable that is not there."""
    if missing := [name for name in (*_ARGUMENTS.values(), _MEMORY) if not environ.get(name)]:
        raise ClusterError(f"expected the variables that Spark gives an executor's pod, was none of {missing[0]}")
    home = spark_home()
    numbered = {int(match[1]): value for name, value in environ.items() if (match := _OPTION.fullmatch(name))}
    places = [f"{environ.get('SPARK_CONF_DIR', '/opt/spark/conf')}", f"{home}/jars/*"]
    command = [
        str(find_java(environ).path / "bin" / "java"),
        *(value for _, value in sorted(numbered.items())),
        f"-Xms{environ[_MEMORY]}",
        f"-Xmx{environ[_MEMORY]}",
        "-cp",
        ":".join(places),
        _BACKEND,
        *(part for option, name in _ARGUMENTS.items() for part in (option, environ[name])),
    ]
    return Launch(
        tuple(command),
        {**environ, "SPARK_HOME": str(home), "SPARK_LOCAL_HOSTNAME": environ["SPARK_EXECUTOR_POD_IP"]},
        directory,
    )
