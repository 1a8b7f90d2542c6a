"""Spark's standalone cluster: its processes, each on a machine of its own, or all of them on this machine.

```
daemons    settings, environment and command line of a master, a worker, a history server, an executor's pod of
           Kubernetes; the starting process becomes one
local      a master and workers as processes of this machine, monitored
secrets    shared files of a cluster's processes: tokens, Spark's secret, certificates
```

`deltabook.cli.cluster` has the commands. The runtime uses the cluster: `runtime.spark.session` with its master.
"""
