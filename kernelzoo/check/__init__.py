"""Correctness: the contract as cases, fuzzing, accuracy, and the pytest plug-in that runs the cases."""
