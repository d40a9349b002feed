"""Tests of the command, a package because its conftest has the name of the one above."""
