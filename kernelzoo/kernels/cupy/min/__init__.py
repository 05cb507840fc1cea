"""The minimum along an axis in CUDA C++: a form a file, its kernel in the .cu beside it; choose.py picks among them."""
