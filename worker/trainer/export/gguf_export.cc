// Writes a model as a GGUF file.
#include "worker/trainer/export/gguf_export.h"

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/export/dense_model.h"
#include "worker/trainer/export/gguf_decoder.h"
#include "worker/trainer/export/gguf_file.h"
#include "worker/trainer/export/gguf_vocabulary.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

// What most of a file's numbers are, as llama.cpp counts.
uint32_t FileType(GgufNumber weights) {
  return weights == GgufNumber::kQ8_0 ? 7 : static_cast<uint32_t>(weights);
}

}  // namespace

absl::Status ExportToGguf(const std::string& from, GgufNumber weights,
                          const std::string& to) {
  ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(from));
  if (!model.config.causal()) {
    return absl::FailedPreconditionError(
        "gguf: only causal language models have that form; --format hf and "
        "onnx have encoders");
  }
  if (model.config.llama() && !model.config.gate_silu) {
    return absl::FailedPreconditionError(
        "gguf: a LLaMA's gate has a SiLU, this model's has none");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadSavedTokenizer(from));
  if (tokenizer->vocabulary_size() != model.config.vocabulary) {
    return absl::DataLossError(absl::StrCat(
        from, ": the vocabulary has ", tokenizer->vocabulary_size(),
        " tokens, the model ", model.config.vocabulary));
  }
  ASSIGN_OR_RETURN(const ImportedModel dense, MakeDense(model));
  GgufFile file;
  AddDecoderSizes(dense.config, &file);
  file.Set("general.type", "model");
  file.Set("general.file_type", FileType(weights));
  file.Set("general.quantization_version", uint32_t{2});
  RETURN_IF_ERROR(AddVocabulary(from, &file));
  RETURN_IF_ERROR(AddDecoderWeights(dense, weights, &file));
  RETURN_IF_ERROR(MakeDirectories(to));
  return file.WriteAtomically(absl::StrCat(to, "/", kGgufFile));
}

}  // namespace comera::trainer
