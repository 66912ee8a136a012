// Chooses the corpus that reads the format of a job's data.
#include "worker/trainer/data/corpus/open_corpus.h"

#include "worker/trainer/data/corpus/code_directory_corpus.h"
#include "worker/trainer/data/corpus/glue_tsv_corpus.h"
#include "worker/trainer/data/corpus/jsonl_corpus.h"
#include "worker/trainer/data/corpus/labelled_text_corpus.h"
#include "worker/trainer/data/corpus/text_corpus.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<Corpus>> OpenCorpus(
    const v1::JobSpec& spec,
    const std::function<void(const std::string&)>& activity) {
  switch (spec.data().format_case()) {
    case v1::DataSpec::kText:
      return TextCorpus::Open(spec.data().text(), activity);
    case v1::DataSpec::kGlueTsv:
      return GlueTsvCorpus::Open(spec.data().glue_tsv(),
                                 spec.model().classes());
    case v1::DataSpec::kCodeDirectory:
      return CodeDirectoryCorpus::Open(spec.data().code_directory(),
                                       spec.training().seed(), activity);
    case v1::DataSpec::kJsonl:
      return JsonlCorpus::Open(spec.data().jsonl());
    case v1::DataSpec::kLabelledText:
      return LabelledTextCorpus::Open(spec.data().labelled_text(),
                                      spec.model().classes());
    default:
      return absl::InvalidArgumentError(
          "data: one of text, labelled_text, glue_tsv, code_directory, jsonl "
          "is needed");
  }
}

}  // namespace comera::trainer
