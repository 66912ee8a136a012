// Reads the corpus or click log that a job names, and cuts it into samples.
#include "worker/trainer/data/open_training_data.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/in_memory_data.h"
#include "worker/trainer/data/batch/phased_data.h"
#include "worker/trainer/data/batch/sample_builder.h"
#include "worker/trainer/data/batch/sample_set.h"
#include "worker/trainer/data/clicks/open_click_data.h"
#include "worker/trainer/data/corpus/code_directory_corpus.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/corpus/glue_tsv_corpus.h"
#include "worker/trainer/data/corpus/jsonl_corpus.h"
#include "worker/trainer/data/corpus/labelled_text_corpus.h"
#include "worker/trainer/data/source/cache_file.h"
#include "worker/trainer/data/tokenizer/tokenizer_source.h"

namespace comera::trainer {
namespace {

using Activity = std::function<void(const std::string&)>;

constexpr int32_t kMinLength = 8;
constexpr int32_t kMaxLength = 65535;
constexpr double kDefaultMaskProbability = 0.15;

absl::StatusOr<std::unique_ptr<Corpus>> OpenCorpus(const v1::JobSpec& spec,
                                                   const Activity& activity) {
  switch (spec.data().format_case()) {
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
          "data: one of labelled_text, glue_tsv, code_directory, jsonl is "
          "needed");
  }
}

// What batches hold; checks the spec's numbers.
absl::StatusOr<InMemoryData::Options> BatchOptions(const v1::JobSpec& spec,
                                                   int32_t corpus_classes) {
  InMemoryData::Options options;
  options.max_length = spec.data().max_length();
  options.seed = spec.training().seed();
  if (options.max_length < kMinLength || options.max_length > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.max_length: ", options.max_length, " is not in ",
                     kMinLength, " to ", kMaxLength));
  }
  if (spec.model().family() == v1::ModelSpec::MASKED_LM) {
    const double probability = spec.data().mask_probability();
    options.mask_probability =
        probability == 0 ? kDefaultMaskProbability : probability;
    if (!(options.mask_probability > 0 && options.mask_probability < 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.mask_probability: ", probability, " is not between 0 and 1"));
    }
    return options;
  }
  if (spec.model().family() != v1::ModelSpec::ENCODER_CLASSIFIER) {
    return absl::InvalidArgumentError("model.family: missing");
  }
  if (corpus_classes == 0) {
    return absl::InvalidArgumentError(
        "data: ENCODER_CLASSIFIER needs labels, so labelled_text or glue_tsv");
  }
  options.classes = std::max(corpus_classes, spec.model().classes());
  return options;
}

absl::StatusOr<std::unique_ptr<TrainingData>> OpenTexts(
    const v1::JobSpec& spec, const TrainingData::Options& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Corpus> corpus,
                   OpenCorpus(spec, options.on_activity));
  ASSIGN_OR_RETURN(InMemoryData::Options batch_options,
                   BatchOptions(spec, corpus->classes()));
  batch_options.format = corpus->format();
  FileCache cache(options.cache_dir, options.on_activity);
  ASSIGN_OR_RETURN(OpenedTokenizer opened,
                   OpenTokenizer(spec.data().tokenizer(), *corpus, &cache,
                                 options.on_activity));
  Tokenizer* const tokenizer = opened.tokenizer.get();
  batch_options.use_segments =
      tokenizer->has_segments() && spec.model().segments() != 1;

  const int32_t max_length = batch_options.max_length;
  const bool masked_lm = batch_options.mask_probability > 0;
  SampleSets samples;
  RETURN_IF_ERROR(cache.GetOrBuild(
      "samples",
      absl::StrCat("samples 2\n", max_length, " ", masked_lm, "\n",
                   opened.fingerprint, "\n", corpus->fingerprint()),
      [&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const SampleSets built,
                         BuildSamples(*corpus, max_length, masked_lm, tokenizer,
                                      options.on_activity));
        std::string bytes;
        built.train.Serialize(&bytes);
        built.validation.Serialize(&bytes);
        built.test.Serialize(&bytes);
        return bytes;
      },
      [&](absl::string_view bytes) -> absl::Status {
        for (SampleSet* const set :
             {&samples.train, &samples.validation, &samples.test}) {
          ASSIGN_OR_RETURN(
              *set, SampleSet::Parse(&bytes, tokenizer->vocabulary_size(),
                                     max_length));
          const bool needed = set != &samples.test || corpus->has_test();
          if (needed && set->size() == 0) {
            return absl::DataLossError("no samples");
          }
          for (int64_t i = 0; !masked_lm && i < set->size(); ++i) {
            if (set->label(i) >= batch_options.classes) {
              return absl::DataLossError("a label is outside the classes");
            }
          }
        }
        return bytes.empty() ? absl::OkStatus()
                             : absl::DataLossError("bytes left over");
      }));
  return std::make_unique<InMemoryData>(batch_options, std::move(samples),
                                        std::move(opened.tokenizer));
}

// The corpus cut to the length of each phase.
absl::StatusOr<std::unique_ptr<TrainingData>> OpenPhases(
    const v1::JobSpec& spec, const TrainingData::Options& options) {
  std::map<int32_t, std::shared_ptr<const TrainingData>> by_length;
  std::vector<PhasedData::Phase> phases;
  int64_t first_step = 0;
  for (const v1::Phase& phase : spec.training().phases()) {
    std::shared_ptr<const TrainingData>& data = by_length[phase.max_length()];
    if (data == nullptr) {
      v1::JobSpec cut = spec;
      cut.mutable_data()->set_max_length(phase.max_length());
      ASSIGN_OR_RETURN(data, OpenTexts(cut, options));
    }
    phases.push_back({first_step, data});
    first_step += phase.steps();
  }
  return std::make_unique<PhasedData>(std::move(phases));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingData>> OpenTrainingData(
    const v1::JobSpec& spec, const TrainingData::Options& options) {
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    return OpenClickData(spec, options);
  }
  return spec.training().phases().empty() ? OpenTexts(spec, options)
                                          : OpenPhases(spec, options);
}

}  // namespace comera::trainer
