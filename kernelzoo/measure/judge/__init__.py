"""The judge owns the data, the references and the clock that counts. It runs no kernel of a user."""
