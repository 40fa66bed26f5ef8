"""Benchmarks: scripts that measure on this machine and print tables."""
