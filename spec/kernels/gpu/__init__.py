"""The Triton kernels. Each is launched by the function of the same room above, which also has its twin in torch.

With ``TRITON_INTERPRET=1`` in the environment before this package is imported, they run on CPU tensors.
"""
