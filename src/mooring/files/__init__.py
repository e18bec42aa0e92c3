"""Files that cross the machine boundary: uploads, artifacts, results too big to show, and where their bytes
are kept."""
