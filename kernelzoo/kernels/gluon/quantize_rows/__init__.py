"""Rows quantised in Gluon."""
