"""The container runtime: images under Docker or Podman, with the same profile and the same way out."""
