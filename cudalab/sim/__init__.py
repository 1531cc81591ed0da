"""The simulated device: compiler, machine, device, and the modules of CUDA's shape above them."""
