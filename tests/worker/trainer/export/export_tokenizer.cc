// Exports the tokenizer of a model's folder and prints the ids that it gives
// texts: for tests of what other libraries read.
//
//   export_tokenizer FROM TO {encoder | causal | gguf} < TEXTS
//
// TEXTS: one a line, in hexadecimal. Output: a line of ids for each. gguf
// writes a file with a vocabulary and no tensors, model.gguf.
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/export/gguf_decoder.h"
#include "worker/trainer/export/gguf_file.h"
#include "worker/trainer/export/gguf_vocabulary.h"
#include "worker/trainer/export/hf_tokenizer.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

absl::Status WriteVocabulary(const std::string& from, const std::string& to,
                             int64_t tokens) {
  ModelConfig config;
  config.family = v1::ModelSpec::CAUSAL_LM;
  config.architecture = v1::ModelSpec::LLAMA;
  config.vocabulary = tokens;
  config.hidden = config.ffn = 4;
  config.layers = config.heads = 1;
  config.max_positions = 8;
  GgufFile file;
  AddDecoderSizes(config, &file);
  RETURN_IF_ERROR(AddVocabulary(from, &file));
  return file.WriteAtomically(to + "/model.gguf");
}

absl::Status Run(const std::string& from, const std::string& to,
                 const std::string& kind) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadSavedTokenizer(from));
  RETURN_IF_ERROR(MakeDirectories(to));
  if (kind == "gguf") {
    RETURN_IF_ERROR(WriteVocabulary(from, to, tokenizer->vocabulary_size()));
  } else {
    RETURN_IF_ERROR(
        WriteHuggingFaceTokenizer(*tokenizer, kind == "causal", to));
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    std::vector<int32_t> ids;
    tokenizer->Encode(absl::HexStringToBytes(line), &ids);
    std::cout << absl::StrJoin(ids, " ") << "\n";
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::trainer

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: export_tokenizer FROM TO {encoder | causal | gguf}\n";
    return 2;
  }
  const absl::Status status = comera::trainer::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}
