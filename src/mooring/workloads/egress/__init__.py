"""The only way out of a workload: a proxy that lets through what the permission profile names."""
