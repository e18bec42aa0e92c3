"""Where a workload's program comes from: a command, or a package that is fetched once and then only read."""
