"""Tests of graphs."""
