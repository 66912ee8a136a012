"""A plain BERT or RoBERTa in PyTorch, from what the transformers library would
read: config.json and model.safetensors. Written from the published models, not
from this engine."""

import json
import math
import struct

import torch


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == '__metadata__':
            continue
        assert entry['dtype'] == 'F32', name
        begin, end = entry['data_offsets']
        flat = torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]),
                                dtype=torch.float32)
        tensors[name] = flat.reshape(entry['shape'])
    return tensors


class HuggingFaceModel:

    def __init__(self, folder):
        self.config = json.loads((folder / 'config.json').read_text())
        self.tensors = read_safetensors(folder / 'model.safetensors')
        self.unused = set(self.tensors)
        self.prefix = self.config['model_type'] + '.'

    def _tensor(self, name):
        self.unused.discard(name)
        return self.tensors[name]

    def _linear(self, name, x):
        return torch.nn.functional.linear(x, self._tensor(name + '.weight'),
                                          self._tensor(name + '.bias'))

    def _norm(self, name, x):
        return torch.nn.functional.layer_norm(
            x, x.shape[-1:], self._tensor(name + '.weight'),
            self._tensor(name + '.bias'), self.config['layer_norm_eps'])

    def encode(self, ids, segments):
        """ids, segments (L): one sequence without padding."""
        base = self.prefix + 'embeddings.'
        first = (self.config['pad_token_id'] + 1
                 if self.config['model_type'] == 'roberta' else 0)
        positions = torch.arange(first, first + len(ids))
        x = (self._tensor(base + 'word_embeddings.weight')[ids]
             + self._tensor(base + 'position_embeddings.weight')[positions]
             + self._tensor(base + 'token_type_embeddings.weight')[segments])
        x = self._norm(base + 'LayerNorm', x)
        heads = self.config['num_attention_heads']
        width = self.config['hidden_size'] // heads
        for i in range(self.config['num_hidden_layers']):
            layer = f'{self.prefix}encoder.layer.{i}.'
            query, key, value = (
                self._linear(f'{layer}attention.self.{name}', x)
                .reshape(len(ids), heads, width).transpose(0, 1)
                for name in ('query', 'key', 'value'))
            scores = query @ key.transpose(1, 2) / math.sqrt(width)
            mixed = (scores.softmax(-1) @ value).transpose(0, 1).reshape(
                len(ids), -1)
            x = self._norm(layer + 'attention.output.LayerNorm',
                           x + self._linear(layer + 'attention.output.dense',
                                            mixed))
            inner = torch.nn.functional.gelu(
                self._linear(layer + 'intermediate.dense', x))
            x = self._norm(layer + 'output.LayerNorm',
                           x + self._linear(layer + 'output.dense', inner))
        return x

    def logits(self, ids, segments):
        """Of a classifier (classes); of a masked LM (L, vocabulary)."""
        with torch.no_grad():
            x = self.encode(torch.tensor(ids), torch.tensor(segments))
            architecture, = self.config['architectures']
            if architecture == 'BertForSequenceClassification':
                pooled = torch.tanh(self._linear('bert.pooler.dense', x[0]))
                return self._linear('classifier', pooled)
            if architecture == 'RobertaForSequenceClassification':
                pooled = torch.tanh(self._linear('classifier.dense', x[0]))
                return self._linear('classifier.out_proj', pooled)
            if architecture == 'BertForMaskedLM':
                head, norm = ('cls.predictions.transform.dense',
                              'cls.predictions.transform.LayerNorm')
                out = 'cls.predictions'
            else:
                assert architecture == 'RobertaForMaskedLM', architecture
                head, norm, out = 'lm_head.dense', 'lm_head.layer_norm', 'lm_head'
            x = self._norm(norm, torch.nn.functional.gelu(self._linear(head, x)))
            weight = (self._tensor(self.prefix +
                                   'embeddings.word_embeddings.weight')
                      if self.config['tie_word_embeddings']
                      else self._tensor(out + '.decoder.weight'))
            return torch.nn.functional.linear(x, weight,
                                              self._tensor(out + '.bias'))
