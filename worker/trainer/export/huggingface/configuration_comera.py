"""The configuration of a model that was exported by comera with its factors."""

from transformers import PretrainedConfig


class ComeraConfig(PretrainedConfig):
    """`comera` describes the model: its sizes, and under `factorisation` the modes
    and ranks of every layer. The other fields are what the transformers library
    asks of any model."""

    model_type = "comera"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(self, comera=None, **kwargs):
        self.comera = dict(comera or {})
        sizes = {
            "vocab_size": "vocabulary",
            "hidden_size": "hidden",
            "intermediate_size": "ffn",
            "num_hidden_layers": "layers",
            "num_attention_heads": "heads",
            "max_position_embeddings": "max_positions",
        }
        for name, ours in sizes.items():
            setattr(self, name, kwargs.pop(name, self.comera.get(ours, 1)))
        self.num_key_value_heads = kwargs.pop(
            "num_key_value_heads", self.comera.get("kv_heads", self.num_attention_heads)
        )
        # A tied output is computed from the word table's cores: there are no two
        # tensors to tie.
        kwargs["tie_word_embeddings"] = False
        super().__init__(**kwargs)
