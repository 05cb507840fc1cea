"""Sums in Gluon."""
