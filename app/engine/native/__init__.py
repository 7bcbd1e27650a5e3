"""Parley's own kernels: one C file, compiled on the machine it runs on, and its Python face.

Everything here is optional. Without a compiler the engine runs the same model through torch.
"""
