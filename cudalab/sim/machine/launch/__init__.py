"""Running a launch: its configuration, its module, the blocks on the SMs, clusters, worker threads."""
