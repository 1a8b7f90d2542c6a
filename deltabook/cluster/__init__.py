"""Spark's standalone cluster: its processes, each on a machine of its own, or all of them on this machine.

```
daemons    settings, environment and command line of a master, a worker, a history server or an executor on Kubernetes;
           replacement of a Python process by such a process
local      a master and workers as monitored processes of this machine
tied       script that starts such a process so that the process ends when its parent ends
secrets    shared files of a cluster's processes: tokens, Spark's secret, certificates
health     health of every part of the system, judged by the answer of its port
```

`deltabook.cli.cluster` has the commands. The runtime uses the cluster through `runtime.spark.session`, which
connects to its master.
"""
