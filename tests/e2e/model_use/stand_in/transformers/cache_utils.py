"""Keys and values of earlier tokens, layer by layer."""

import torch


class DynamicCache:

    def __init__(self):
        self._layers = []

    def get_seq_length(self, layer=0):
        return self._layers[layer][0].shape[2] if self._layers else 0

    def update(self, keys, values, layer):
        """All keys and values, (batch, heads, length, width), with the new ones."""
        if layer == len(self._layers):
            self._layers.append((keys, values))
        else:
            before = self._layers[layer]
            self._layers[layer] = (torch.cat([before[0], keys], 2),
                                   torch.cat([before[1], values], 2))
        return self._layers[layer]
