"""Code that several languages share: driver calls, launch plans for split rows, and a disk cache of machine code."""
