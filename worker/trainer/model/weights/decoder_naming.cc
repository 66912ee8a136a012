// Maps our parameters to the names of LLaMA and GPT-2 checkpoints.
#include "worker/trainer/model/weights/decoder_naming.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

constexpr char kOurLayers[] = "decoder.layers.";
constexpr char kLlamaWords[] = "embed_tokens.weight";
constexpr char kGpt2Words[] = "wte.weight";

// A module of a layer, and its place in the tensor there.
struct LayerModule {
  absl::string_view ours;
  absl::string_view theirs;
  int64_t part = 0;
  int64_t parts = 1;
};

constexpr LayerModule kLlamaModules[] = {
    {"attention.norm", "input_layernorm"},
    {"attention.query", "self_attn.q_proj"},
    {"attention.key", "self_attn.k_proj"},
    {"attention.value", "self_attn.v_proj"},
    {"attention.output", "self_attn.o_proj"},
    {"ffn.norm", "post_attention_layernorm"},
    {"ffn.gate", "mlp.gate_proj"},
    {"ffn.up", "mlp.up_proj"},
    {"ffn.down", "mlp.down_proj"},
};
constexpr LayerModule kGpt2Modules[] = {
    {"attention.norm", "ln_1"},
    {"attention.query", "attn.c_attn", 0, 3},
    {"attention.key", "attn.c_attn", 1, 3},
    {"attention.value", "attn.c_attn", 2, 3},
    {"attention.output", "attn.c_proj"},
    {"ffn.norm", "ln_2"},
    {"ffn.up", "mlp.c_fc"},
    {"ffn.down", "mlp.c_proj"},
};

// What the architectures keep in their layers besides parameters.
constexpr absl::string_view kBuffers[] = {".rotary_emb.inv_freq", ".attn.bias",
                                          ".attn.masked_bias"};

// "decoder.layers.3.ffn.up.bias" is module "ffn.up" of layer "3".
struct LayerParameter {
  absl::string_view layer;
  absl::string_view module;
};

bool SplitLayer(absl::string_view module, LayerParameter* parts) {
  if (!absl::ConsumePrefix(&module, kOurLayers)) return false;
  const std::pair<absl::string_view, absl::string_view> split =
      absl::StrSplit(module, absl::MaxSplits('.', 1));
  *parts = {split.first, split.second};
  return true;
}

std::string TheirLeaf(const std::string& leaf) {
  if (leaf == "gamma") return "weight";
  return leaf == "beta" ? "bias" : leaf;
}

class DecoderNaming : public TensorNaming {
 public:
  DecoderNaming(std::string prefix, bool gpt2)
      : prefix_(std::move(prefix)), gpt2_(gpt2) {}

  const char* name() const override { return gpt2_ ? "GPT-2" : "LLaMA"; }

  std::vector<TensorPlace> Places(const std::string& parameter) const override {
    const std::string words =
        absl::StrCat(prefix_, gpt2_ ? kGpt2Words : kLlamaWords);
    if (parameter == "decoder.embedding.word.weight") return {{words}};
    if (parameter == "decoder.embedding.position") {
      return {{prefix_ + "wpe.weight"}};
    }
    if (parameter == "head.output.weight") {
      return {{"lm_head.weight", true}, {words, true}};
    }
    const size_t dot = parameter.rfind('.');
    const std::string leaf = parameter.substr(dot + 1);
    const std::string module = parameter.substr(0, dot);
    if (module == "head.norm") {
      return {
          {absl::StrCat(prefix_, gpt2_ ? "ln_f." : "norm.", TheirLeaf(leaf))}};
    }
    LayerParameter parts;
    if (!SplitLayer(module, &parts)) return {};
    const auto find = [&](const auto& modules) {
      std::vector<TensorPlace> places;
      for (const LayerModule& m : modules) {
        if (parts.module != m.ours) continue;
        places.push_back({absl::StrCat(prefix_, Layers(), parts.layer, ".",
                                       m.theirs, ".", TheirLeaf(leaf)),
                          !gpt2_ && leaf == "weight", m.part, m.parts});
      }
      return places;
    };
    return gpt2_ ? find(kGpt2Modules) : find(kLlamaModules);
  }

  bool MayBeLeftOut(const std::string& tensor, int64_t layers) const override {
    for (absl::string_view buffer : kBuffers) {
      if (absl::EndsWith(tensor, buffer)) return true;
    }
    absl::string_view rest = tensor;
    int64_t layer = 0;
    const bool in_layer =
        absl::ConsumePrefix(&rest, absl::StrCat(prefix_, Layers())) &&
        absl::SimpleAtoi(rest.substr(0, rest.find('.')), &layer);
    return !in_layer || layer >= layers;
  }

 private:
  const char* Layers() const { return gpt2_ ? "h." : "layers."; }

  const std::string prefix_;
  const bool gpt2_;
};

}  // namespace

std::unique_ptr<TensorNaming> MakeDecoderNaming(
    v1::ModelSpec::Architecture architecture, const std::string& prefix) {
  return std::make_unique<DecoderNaming>(prefix,
                                         architecture == v1::ModelSpec::GPT2);
}

absl::StatusOr<std::unique_ptr<TensorNaming>> FindDecoderNaming(
    const CheckpointTensors& tensors,
    v1::ModelSpec::Architecture architecture) {
  const bool gpt2 = architecture == v1::ModelSpec::GPT2;
  const absl::string_view words = gpt2 ? kGpt2Words : kLlamaWords;
  int found = 0;
  std::string prefix;
  for (const std::string& name : tensors.names()) {
    absl::string_view rest = name;
    if (!absl::ConsumeSuffix(&rest, words)) continue;
    if (!rest.empty() && rest.back() != '.') continue;
    prefix = std::string(rest);
    ++found;
  }
  if (found != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensors.path(), ": ", found == 0 ? "no" : "more than one",
                     " word embedding of a ", gpt2 ? "GPT-2" : "LLaMA",
                     " (model.architecture): expected one tensor "
                     "decoder.embedding.word.weight or ",
                     gpt2 ? "[transformer.]" : "[model.]", words));
  }
  return MakeDecoderNaming(architecture, prefix);
}

}  // namespace comera::trainer
