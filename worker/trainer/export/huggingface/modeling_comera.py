"""Models that comera exported with their factors, for the transformers library:

    AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True)

Decoders (AutoModelForCausalLM) are LLaMA's and GPT-2's, encoders
(AutoModelForMaskedLM, AutoModelForSequenceClassification) BERT's; their linear
layers and word tables are tensor trains, or in the form of another method, and
compute with their factors.
"""

import torch
from torch import nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.cache_utils import DynamicCache
from transformers.modeling_outputs import (
    CausalLMOutputWithPast,
    MaskedLMOutput,
    SequenceClassifierOutput,
)

from .comera_layers import (
    DenseLinear,
    LayerNorm,
    RmsNorm,
    attend,
    make_linear,
    make_table,
    rotate,
    split_heads,
)
from .configuration_comera import ComeraConfig


class _Shape:
    """The description of a model, by attributes."""

    def __init__(self, config):
        self.__dict__.update(config.comera)
        self.llama = config.comera.get("architecture") == "llama"
        self.decoder = self.family == "causal_lm"
        self.width = self.hidden // self.heads

    def linear(self, key, inputs, outputs):
        bias = not self.decoder or not self.llama
        return make_linear(inputs, outputs, self.factorisation[key], bias)

    def norm(self):
        kind = RmsNorm if self.llama else LayerNorm
        return kind(self.hidden, self.layer_norm_epsilon)

    def words(self):
        form = self.factorisation["embedding"]
        return make_table(self.vocabulary, self.hidden, form)


class _Attention(nn.Module):
    """Decoders: dropout(attention(norm(x))); encoders: norm(x +
    dropout(attention(x)))."""

    def __init__(self, shape, index):
        super().__init__()
        self.shape, self.index = shape, index
        self.kv_heads = getattr(shape, "kv_heads", shape.heads)
        d, keys = shape.hidden, self.kv_heads * shape.width
        prefix = f"layers.{index}."
        self.norm = shape.norm()
        self.query = shape.linear(prefix + "query", d, d)
        self.key = shape.linear(prefix + "key", d, keys)
        self.value = shape.linear(prefix + "value", d, keys)
        self.output = shape.linear(prefix + "output", d, d)

    def forward(self, x, hidden, positions=None, cache=None):
        shape, rest = self.shape, x
        if shape.decoder:
            x = self.norm(x)
        q = split_heads(self.query(x), shape.heads)
        k = split_heads(self.key(x), self.kv_heads)
        v = split_heads(self.value(x), self.kv_heads)
        if shape.llama:
            q = rotate(q, positions, shape.rope_theta)
            k = rotate(k, positions, shape.rope_theta)
        if cache is not None:
            k, v = cache.update(k, v, self.index)
        group = shape.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        mixed = attend(q, k, v, hidden, shape.dropout, self.training)
        y = nn.functional.dropout(self.output(mixed), shape.dropout, self.training)
        return rest + y if shape.decoder else self.norm(rest + y)


class _FeedForward(nn.Module):
    """Decoders: x + dropout(f(norm(x))); encoders: norm(x + dropout(f(x)))."""

    def __init__(self, shape, index):
        super().__init__()
        self.shape = shape
        d, h, prefix = shape.hidden, shape.ffn, f"layers.{index}."
        self.norm = shape.norm()
        self.gate = shape.linear(prefix + "ffn_gate", d, h) if shape.llama else None
        self.up = shape.linear(prefix + "ffn_up", d, h)
        self.down = shape.linear(prefix + "ffn_down", h, d)

    def forward(self, x):
        shape, rest = self.shape, x
        if shape.decoder:
            x = self.norm(x)
        y = self.up(x)
        if self.gate is not None:
            gate = self.gate(x)
            y = (nn.functional.silu(gate) if shape.gate_silu else gate) * y
        else:
            form = "tanh" if shape.decoder else "none"
            y = nn.functional.gelu(y, approximate=form)
        y = nn.functional.dropout(self.down(y), shape.dropout, self.training)
        return rest + y if shape.decoder else self.norm(rest + y)


class ComeraBlock(nn.Module):
    def __init__(self, shape, index):
        super().__init__()
        self.attention = _Attention(shape, index)
        self.ffn = _FeedForward(shape, index)

    def forward(self, x, hidden, positions=None, cache=None):
        return self.ffn(self.attention(x, hidden, positions, cache))


class _Embedding(nn.Module):
    """Words, of GPT-2 and encoders with positions, of encoders with segments and a
    norm."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.word = shape.words()
        self.position = self.segment = self.norm = None
        if not shape.llama:
            self.position = nn.Parameter(torch.empty(shape.max_positions, shape.hidden))
        if not shape.decoder:
            self.segment = nn.Parameter(torch.empty(shape.segments, shape.hidden))
            self.norm = shape.norm()

    def forward(self, ids, positions, segments=None):
        x = self.word(ids)
        if self.position is not None:
            x = x + nn.functional.embedding(positions, self.position)
        if self.segment is not None:
            x = self.norm(x + nn.functional.embedding(segments, self.segment))
        return nn.functional.dropout(x, self.shape.dropout, self.training)


class _Stack(nn.Module):
    """Embedding and blocks."""

    def __init__(self, shape):
        super().__init__()
        self.embedding = _Embedding(shape)
        self.layers = nn.ModuleList(
            [ComeraBlock(shape, i) for i in range(shape.layers)]
        )


class _Head(nn.Module):
    """The parameters behind the blocks; which, the family says."""


class ComeraPreTrainedModel(PreTrainedModel):
    config_class = ComeraConfig
    supports_gradient_checkpointing = False
    _no_split_modules = ["ComeraBlock"]
    _stack = "encoder"

    def __init__(self, config):
        super().__init__(config)
        self.shape = _Shape(config)
        setattr(self, self._stack, _Stack(self.shape))
        self.head = _Head()

    def _init_weights(self, module):
        """Every parameter comes from the exported file."""

    def get_input_embeddings(self):
        return getattr(self, self._stack).embedding.word

    def set_input_embeddings(self, value):
        getattr(self, self._stack).embedding.word = value

    def get_output_embeddings(self):
        return None

    def _words(self, h):
        """Logits over the vocabulary."""
        if self.shape.tie_output:
            return self.get_input_embeddings().project(h)
        return self.head.output(h)

    def _output_layer(self, bias):
        shape = self.shape
        form = shape.factorisation["output"]
        return make_linear(shape.hidden, shape.vocabulary, form, bias)


class ComeraForCausalLM(ComeraPreTrainedModel, GenerationMixin):
    """Logits of the next token at each place."""

    base_model_prefix = "decoder"
    _stack = "decoder"

    def __init__(self, config):
        super().__init__(config)
        self.head.norm = self.shape.norm()
        if not self.shape.tie_output:
            self.head.output = self._output_layer(bias=False)
        self.post_init()

    def prepare_inputs_for_generation(
        self, input_ids, past_key_values=None, attention_mask=None, **kwargs
    ):
        done = 0 if past_key_values is None else past_key_values.get_seq_length()
        return {
            "input_ids": input_ids[:, done:],
            "past_key_values": past_key_values,
            "attention_mask": attention_mask,
            "use_cache": kwargs.get("use_cache", True),
        }

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        labels=None,
        use_cache=None,
        logits_to_keep=0,
        **kwargs,
    ):
        """`attention_mask` (batch, earlier and new tokens): 0 for padding. `labels`
        are the ids again: each place predicts the next one. The logits are those of
        the last `logits_to_keep` places, of all by default."""
        cache = past_key_values
        if cache is None and use_cache:
            cache = DynamicCache()
        done = 0 if cache is None else cache.get_seq_length()
        length, device = input_ids.shape[1], input_ids.device
        if attention_mask is None:
            attention_mask = torch.ones(
                input_ids.shape[0], done + length, dtype=torch.long, device=device
            )
        if position_ids is None:
            position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        position_ids = position_ids[:, -length:].expand(input_ids.shape[0], -1)
        places = torch.arange(done + length, device=device)
        own = places[None, :] == places[done:, None]
        earlier = places[None, :] < places[done:, None]
        # Padding attends to itself, or it had nothing to attend to.
        seen = own | (earlier & (attention_mask != 0)[:, None, :])
        x = self.decoder.embedding(input_ids, position_ids)
        for layer in self.decoder.layers:
            x = layer(x, ~seen[:, None], position_ids, cache)
        kept = slice(-logits_to_keep, None) if logits_to_keep else slice(None)
        logits = self._words(self.head.norm(x[:, kept]))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(
                logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1)
            )
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)


class _EncoderModel(ComeraPreTrainedModel):
    base_model_prefix = "encoder"

    def _encode(self, ids, mask, segments):
        """(batch, length, hidden)."""
        if segments is None:
            segments = torch.zeros_like(ids)
        positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        x = self.encoder.embedding(ids, positions, segments)
        if mask is None:
            mask = torch.ones_like(ids)
        for layer in self.encoder.layers:
            x = layer(x, (mask == 0)[:, None, None, :])
        return x


class ComeraForMaskedLM(_EncoderModel):
    """Logits of the words at each place."""

    def __init__(self, config):
        super().__init__(config)
        shape = self.shape
        self.head.transform = shape.linear("head", shape.hidden, shape.hidden)
        self.head.norm = shape.norm()
        if shape.tie_output:
            self.head.output = nn.Module()
            self.head.output.bias = nn.Parameter(torch.empty(shape.vocabulary))
        else:
            self.head.output = self._output_layer(bias=True)
        self.post_init()

    def forward(
        self, input_ids, attention_mask=None, token_type_ids=None, labels=None, **kwargs
    ):
        h = self._encode(input_ids, attention_mask, token_type_ids)
        h = self.head.norm(nn.functional.gelu(self.head.transform(h)))
        logits = self._words(h)
        if self.shape.tie_output:
            logits = logits + self.head.output.bias
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
            )
        return MaskedLMOutput(loss=loss, logits=logits)


class ComeraForSequenceClassification(_EncoderModel):
    """Logits of the classes of texts, or of pairs of them."""

    def __init__(self, config):
        super().__init__(config)
        shape = self.shape
        self.head.fc1 = shape.linear("head", shape.hidden, shape.hidden)
        self.head.fc2 = DenseLinear(shape.hidden, shape.classes)
        self.post_init()

    def forward(
        self, input_ids, attention_mask=None, token_type_ids=None, labels=None, **kwargs
    ):
        h = self._encode(input_ids, attention_mask, token_type_ids)
        logits = self.head.fc2(torch.tanh(self.head.fc1(h[:, 0])))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
