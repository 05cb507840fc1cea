"""What the kernels of several languages need: the driver's launch, split planning, machine code and its cache."""
