"""Small models of all families and methods, each with the engine's logits of one
batch."""

import json
import os
import struct
import subprocess

import torch

WRITER = os.path.abspath('tests/worker/trainer/model/write_reference_models')
_TYPES = {'F32': torch.float32, 'I32': torch.int32, 'I64': torch.int64}


def _tensors(path):
    data = path.read_bytes()
    size, = struct.unpack('<Q', data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == '__metadata__':
            continue
        begin, end = (8 + size + offset for offset in entry['data_offsets'])
        tensors[name] = torch.frombuffer(
            bytearray(data[begin:end]), dtype=_TYPES[entry['dtype']]
        ).reshape(entry['shape'])
    return tensors


class Reference:
    """A model's folder, one batch, and its logits at label rows."""

    def __init__(self, folder):
        self.folder = folder
        tensors = _tensors(folder / 'reference.safetensors')
        self._tensors = tensors
        self.logits = tensors['logits']
        self.rows = tensors['label_rows'].long()

    def inputs(self):
        """The batch as the transformers library names it."""
        return {
            'input_ids': self._tensors['ids'].long(),
            'attention_mask': self._tensors['mask'].long(),
            'token_type_ids': self._tensors['segments'].long(),
        }

    def documents(self):
        """A decoder's documents with any label: their ids, the places that have
        one, and the logits there."""
        ids, segments, mask = (
            self._tensors[name].flatten().tolist()
            for name in ('ids', 'segments', 'mask'))
        length = self._tensors['ids'].shape[1]
        found = {row: logits for row, logits in zip(
            self.rows.tolist(), self.logits)}
        documents, current = [], None
        for row, token in enumerate(ids):
            if mask[row] == 0:
                current = None
                continue
            if (current is None or row % length == 0
                    or segments[row] != segments[row - 1]):
                current = ([], [], [])
                documents.append(current)
            if row in found:
                current[1].append(len(current[0]))
                current[2].append(found[row])
            current[0].append(token)
        return [(tokens, places, torch.stack(logits))
                for tokens, places, logits in documents if places]


def write(folder):
    """{name: Reference} of the models of text, with a vocabulary each."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([WRITER, str(folder)], check=True, capture_output=True)
    models = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith('dlrm'):
            continue
        if path.name.startswith(('llama', 'gpt2')):
            letters = [chr(ord('A') + i) for i in range(28)]
            (path / 'characters.json').write_text(
                json.dumps(['<unk>', '</s>', *letters]))
        else:
            words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
            words += [f'w{i}' for i in range(5, 30)]
            (path / 'vocab.txt').write_text('\n'.join(words) + '\n')
        models[path.name] = Reference(path)
    return models
