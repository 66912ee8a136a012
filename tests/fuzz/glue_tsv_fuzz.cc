// Fuzzes sentence pairs from tab-separated files, plain or gzip.
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/corpus/glue_tsv_corpus.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using comera::trainer::Corpus;
  comera::FuzzInput input(data, size);
  comera::v1::GlueTsv spec;
  spec.set_sentence1_column(input.Choose(4));
  spec.set_sentence2_column(input.Choose(4));
  spec.set_label_column(input.Choose(5) - 2);
  if (input.Choose(2) == 1) {
    spec.add_labels("yes");
    spec.add_labels("no");
  }
  const std::string file = comera::FuzzFile(input.Rest());
  spec.set_train(file);
  spec.set_validation(file);
  auto corpus = comera::trainer::GlueTsvCorpus::Open(spec, 3);
  if (!corpus.ok()) return 0;
  for (Corpus::Part part : {Corpus::Part::kTrain, Corpus::Part::kValidation}) {
    const int32_t classes = (*corpus)->classes();
    (*corpus)
        ->Read(part,
               [&](const comera::trainer::CorpusText& text) {
                 if (text.label < 0 || text.label >= classes) {
                   comera::FuzzFailure("a label that is no class");
                 }
                 return absl::OkStatus();
               })
        .IgnoreError();
  }
  return 0;
}
