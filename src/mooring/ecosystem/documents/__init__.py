"""Other programs' configuration files, changed in one place and left alone everywhere else."""
