// Folds every layer of a causal language model.
#include "worker/trainer/generate/folded_decoder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/generate/model_parts.h"

namespace comera::trainer {
namespace {

using kernels::Activation;
using kernels::ConstMatrix;
using kernels::ConstVector;

constexpr int64_t kMaxTableBytes = int64_t{1} << 31;

FoldedNorm Norm(const ModelParts& parts, const std::string& name) {
  return {parts.Vector(name + ".gamma"), parts.Vector(name + ".beta")};
}

// The table of words; rows of a tensorised one are computed once.
absl::Status FoldWords(const ModelParts& parts, FoldedDecoder* decoder) {
  const ModelConfig& config = parts.config();
  const ConstVector weight = parts.Vector("decoder.embedding.word.weight");
  if (weight.data != nullptr) {
    decoder->words = ConstMatrix(weight.data, config.vocabulary, config.hidden);
    return absl::OkStatus();
  }
  const int64_t bytes =
      config.vocabulary * config.hidden * int64_t{sizeof(float)};
  if (bytes > kMaxTableBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the table of words has ", bytes,
                     " bytes when multiplied out, more "
                     "than ",
                     kMaxTableBytes));
  }
  const HostMatrix table = parts.Factors("embedding").Multiplied();
  auto memory = std::make_shared<kernels::Arena>(parts.backend());
  const kernels::Arena::Piece piece = memory->Reserve("table of words", bytes);
  RETURN_IF_ERROR(memory->Commit());
  RETURN_IF_ERROR(parts.backend()->CopyToDevice(memory->Address(piece),
                                                table.values.data(), bytes));
  RETURN_IF_ERROR(parts.backend()->Synchronize());
  decoder->words =
      ConstMatrix(memory->Floats(piece), config.vocabulary, config.hidden);
  decoder->table = std::move(memory);
  return absl::OkStatus();
}

absl::StatusOr<FoldedHalf<AttentionLayers>> FoldAttentionHalf(
    const ModelParts& parts, int64_t layer) {
  FoldedHalf<AttentionLayers> half;
  half.norm =
      Norm(parts, absl::StrCat("decoder.layers.", layer, ".attention.norm"));
  const std::string key = absl::StrCat("layers.", layer, ".");
  // A LLaMA's values have no bias.
  if (parts.IsPruned(key + "output") ||
      (parts.config().llama() && parts.IsPruned(key + "value"))) {
    half.constant = parts.BiasOf(key + "output");
    return half;
  }
  ASSIGN_OR_RETURN(half.layers, FoldAttention(parts, layer));
  return half;
}

absl::StatusOr<FoldedHalf<FoldedFfn>> FoldFfnHalf(const ModelParts& parts,
                                                  int64_t layer) {
  FoldedHalf<FoldedFfn> half;
  half.norm = Norm(parts, absl::StrCat("decoder.layers.", layer, ".ffn.norm"));
  const std::string key = absl::StrCat("layers.", layer, ".ffn_");
  const bool llama = parts.config().llama();
  if (parts.IsPruned(key + "down") ||
      (llama && (parts.IsPruned(key + "gate") || parts.IsPruned(key + "up")))) {
    half.constant = parts.BiasOf(key + "down");
    return half;
  }
  std::optional<FoldedLinear> gate;
  Activation activation = Activation::kGeluTanh;
  if (llama) {
    ASSIGN_OR_RETURN(gate, parts.Linear(key + "gate"));
    activation =
        parts.config().gate_silu ? Activation::kSilu : Activation::kIdentity;
  }
  ASSIGN_OR_RETURN(FoldedLinear up, parts.Linear(key + "up"));
  ASSIGN_OR_RETURN(FoldedLinear down, parts.Linear(key + "down"));
  half.layers =
      FoldedFfn{std::move(gate), std::move(up), std::move(down), activation};
  return half;
}

}  // namespace

absl::StatusOr<FoldedDecoder> FoldDecoder(const ModelConfig& config,
                                          const float* parameters,
                                          kernels::Backend* backend) {
  ASSIGN_OR_RETURN(const ModelParts parts,
                   ModelParts::Create(config, parameters, backend));
  FoldedDecoder decoder;
  RETURN_IF_ERROR(FoldWords(parts, &decoder));
  const ConstVector positions = parts.Vector("decoder.embedding.position");
  if (positions.data != nullptr) {
    decoder.positions =
        ConstMatrix(positions.data, config.max_positions, config.hidden);
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    FoldedBlock block;
    ASSIGN_OR_RETURN(block.attention, FoldAttentionHalf(parts, i));
    ASSIGN_OR_RETURN(block.ffn, FoldFfnHalf(parts, i));
    decoder.blocks.push_back(std::move(block));
  }
  decoder.norm = Norm(parts, "head.norm");
  if (config.tie_output) {
    decoder.output.emplace(backend, decoder.words, /*transposed=*/true,
                           ConstVector());
    return decoder;
  }
  ASSIGN_OR_RETURN(decoder.output, parts.Linear("output"));
  return decoder;
}

}  // namespace comera::trainer
