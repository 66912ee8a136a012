// Fuzzes JSON lines, plain or gzip.
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/corpus/jsonl_corpus.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using comera::trainer::Corpus;
  comera::FuzzInput input(data, size);
  comera::v1::Jsonl spec;
  const std::string file = comera::FuzzFile(input.Rest());
  spec.set_train(file);
  spec.set_validation(file);
  spec.add_fields("docstring");
  spec.add_fields("code");
  auto corpus = comera::trainer::JsonlCorpus::Open(spec);
  if (!corpus.ok()) return 0;
  (*corpus)
      ->Read(Corpus::Part::kTrain,
             [](const comera::trainer::CorpusText& text) {
               return absl::OkStatus();
             })
      .IgnoreError();
  return 0;
}
