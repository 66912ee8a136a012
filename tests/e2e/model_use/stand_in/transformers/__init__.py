"""As much of the transformers library, which Debian does not have, as exported
models ask for: what its classes do by their documentation, and no more."""

import importlib.util
import json
import pathlib
import struct
import sys

import torch
from torch import nn


class PretrainedConfig:

    def __init__(self, **kwargs):
        self.tie_word_embeddings = kwargs.pop('tie_word_embeddings', True)
        self.use_cache = kwargs.pop('use_cache', True)
        labels = kwargs.pop('id2label', {0: 'LABEL_0', 1: 'LABEL_1'})
        self.id2label = {int(number): name for number, name in labels.items()}
        for key, value in kwargs.items():
            setattr(self, key, value)


class PreTrainedModel(nn.Module):

    config_class = None
    base_model_prefix = ''

    def __init__(self, config):
        assert isinstance(config, PretrainedConfig)
        super().__init__()
        self.config = config
        self.done = False

    def post_init(self):
        self.done = True

    @property
    def device(self):
        return next(self.parameters()).device


class GenerationMixin:

    @torch.no_grad()
    def generate(self, input_ids, attention_mask=None, max_new_tokens=20):
        """Greedy; a cache is kept from step to step."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        cache = None
        for _ in range(max_new_tokens):
            inputs = self.prepare_inputs_for_generation(
                input_ids, past_key_values=cache, attention_mask=attention_mask,
                use_cache=True)
            output = self(**inputs, return_dict=True)
            cache = output.past_key_values
            found = output.logits[:, -1].argmax(-1, keepdim=True)
            input_ids = torch.cat([input_ids, found], 1)
            attention_mask = torch.cat(
                [attention_mask, torch.ones_like(found)], 1)
        return input_ids


def _tensors(path):
    data = path.read_bytes()
    size, = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + size])
    # The library reads no file of another kind.
    assert header.pop('__metadata__')['format'] == 'pt'
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry['data_offsets'])
        flat = torch.tensor([])
        if end > begin:
            flat = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
        tensors[name] = flat.reshape(entry['shape'])
    return tensors


def _class(folder, reference):
    """The class "module.Name" of a folder, whose modules import one another."""
    package = f'remote_{folder.name}'
    if package not in sys.modules:
        spec = importlib.util.spec_from_loader(package, None, is_package=True)
        sys.modules[package] = importlib.util.module_from_spec(spec)
        sys.modules[package].__path__ = [str(folder)]
    module, name = reference.split('.')
    return getattr(importlib.import_module(f'{package}.{module}'), name)


class _AutoModel:

    name = ''

    @classmethod
    def from_pretrained(cls, folder, trust_remote_code=False):
        assert trust_remote_code
        folder = pathlib.Path(folder)
        document = json.loads((folder / 'config.json').read_text())
        places = document.pop('auto_map')
        names = document.pop('architectures')
        config_class = _class(folder, places['AutoConfig'])
        assert document.pop('model_type') == config_class.model_type
        model_class = _class(folder, places[cls.name])
        assert names == [model_class.__name__]
        assert model_class.config_class is config_class
        model = model_class(config_class(**document))
        assert model.done
        model.load_state_dict(_tensors(folder / 'model.safetensors'))
        return model.eval()


class AutoModelForCausalLM(_AutoModel):
    name = 'AutoModelForCausalLM'


class AutoModelForMaskedLM(_AutoModel):
    name = 'AutoModelForMaskedLM'


class AutoModelForSequenceClassification(_AutoModel):
    name = 'AutoModelForSequenceClassification'
