from kernelzoo.launch import owning as owning
