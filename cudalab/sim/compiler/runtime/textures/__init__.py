"""Texture fetches and surface accesses of compiled kernels."""
