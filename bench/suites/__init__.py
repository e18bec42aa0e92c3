"""The suites: each compares some targets over rounds and adds what it saw to the record."""
