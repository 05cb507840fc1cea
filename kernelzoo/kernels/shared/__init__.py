"""Code that several languages share: the driver's launch, planning of split rows, machine code and its cache."""
