"""Spark's standalone cluster: its processes, each on a machine of its own, or all of them on this machine.

```
daemons    settings, environment and command line of a master, a worker, a history server, an executor's pod of
           Kubernetes; the Python process that starts one is replaced by it
local      a master and workers as processes of this machine, monitored
tied       program that such a process runs in, so that it ends with its parent
secrets    shared files of a cluster's processes: tokens, Spark's secret, certificates
health     health of every part of the system, judged by the answer of its port
```

`deltabook.cli.cluster` has the commands. The runtime uses the cluster: `runtime.spark.session` with its master.
"""
