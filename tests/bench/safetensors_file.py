"""Reads a safetensors file into PyTorch's tensors."""
import json
import struct

import torch

TYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32,
         "I64": torch.int64}


def read(path):
    """Tensors by name."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        dtype = TYPES[entry["dtype"]]
        width = torch.empty((), dtype=dtype).element_size()
        tensors[name] = torch.frombuffer(
            data, dtype=dtype, offset=first,
            count=(last - first) // width).reshape(entry["shape"])
    return tensors
