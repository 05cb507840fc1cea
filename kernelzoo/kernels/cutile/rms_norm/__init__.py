"""RMS norms in cuTile."""
