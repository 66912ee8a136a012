// Reads the corpus or click log that a job names, and cuts it into samples.
#include "worker/trainer/data/open_training_data.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/causal_data.h"
#include "worker/trainer/data/batch/documents.h"
#include "worker/trainer/data/batch/in_memory_data.h"
#include "worker/trainer/data/batch/phased_data.h"
#include "worker/trainer/data/batch/sample_builder.h"
#include "worker/trainer/data/batch/sample_set.h"
#include "worker/trainer/data/clicks/open_click_data.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/corpus/open_corpus.h"
#include "worker/trainer/data/open_documents.h"
#include "worker/trainer/data/open_token_shards.h"
#include "worker/trainer/data/source/cache_file.h"
#include "worker/trainer/data/tokenizer/tokenizer_source.h"

namespace comera::trainer {
namespace {

constexpr int32_t kMinLength = 8;
constexpr int32_t kMaxLength = 65535;
constexpr double kDefaultMaskProbability = 0.15;

// Opens the data with samples of so many tokens.
using OpenLength =
    std::function<absl::StatusOr<std::unique_ptr<TrainingData>>(int32_t)>;

absl::Status CheckLength(const std::string& field, int32_t length) {
  if (length >= kMinLength && length <= kMaxLength) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": ", length, " is not in ", kMinLength, " to ", kMaxLength));
}

// Checks the length of each phase's samples.
absl::Status CheckLengths(const v1::JobSpec& spec) {
  const auto& phases = spec.training().phases();
  if (phases.empty()) {
    return CheckLength("data.max_length", spec.data().max_length());
  }
  for (int i = 0; i < phases.size(); ++i) {
    RETURN_IF_ERROR(
        CheckLength(absl::StrCat("training.phases[", i, "].max_length"),
                    phases[i].max_length()));
  }
  return absl::OkStatus();
}

// What batches of samples of `length` tokens hold; checks the spec's numbers.
absl::StatusOr<InMemoryData::Options> BatchOptions(const v1::JobSpec& spec,
                                                   int32_t length,
                                                   int32_t corpus_classes) {
  InMemoryData::Options options;
  options.max_length = length;
  options.seed = spec.training().seed();
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

// Samples of texts begin and end with special tokens, which vocabularies of
// causal language models lack.
absl::Status CheckSpecialTokens(const SpecialTokens& special, bool masked_lm) {
  if (special.cls >= 0 && special.sep >= 0 &&
      (!masked_lm || special.mask >= 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "data.tokenizer: its vocabulary lacks tokens that begin and end a "
      "sample, or hide a word, so it is for CAUSAL_LM only");
}

absl::StatusOr<std::unique_ptr<TrainingData>> OpenTexts(
    const v1::JobSpec& spec, int32_t max_length,
    const TrainingData::Options& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Corpus> corpus,
                   OpenCorpus(spec, options.on_activity));
  ASSIGN_OR_RETURN(InMemoryData::Options batch_options,
                   BatchOptions(spec, max_length, corpus->classes()));
  batch_options.format = corpus->format();
  FileCache cache(options.cache_dir, options.on_activity);
  ASSIGN_OR_RETURN(OpenedTokenizer opened,
                   OpenTokenizer(spec.data().tokenizer(), *corpus, &cache,
                                 options.on_activity));
  Tokenizer* const tokenizer = opened.tokenizer.get();
  batch_options.use_segments =
      tokenizer->has_segments() && spec.model().segments() != 1;

  const bool masked_lm = batch_options.mask_probability > 0;
  RETURN_IF_ERROR(CheckSpecialTokens(tokenizer->special_tokens(), masked_lm));
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

// The data with the length of each phase, or with the job's.
absl::StatusOr<std::unique_ptr<TrainingData>> OpenPhases(
    const v1::JobSpec& spec, const OpenLength& open) {
  if (spec.training().phases().empty()) return open(spec.data().max_length());
  std::map<int32_t, std::shared_ptr<const TrainingData>> by_length;
  std::vector<PhasedData::Phase> phases;
  int64_t first_step = 0;
  for (const v1::Phase& phase : spec.training().phases()) {
    std::shared_ptr<const TrainingData>& data = by_length[phase.max_length()];
    if (data == nullptr) {
      ASSIGN_OR_RETURN(data, open(phase.max_length()));
    }
    phases.push_back({first_step, data});
    first_step += phase.steps();
  }
  return std::make_unique<PhasedData>(std::move(phases));
}

// Data of a causal language model, whose phases share the documents.
absl::StatusOr<std::unique_ptr<TrainingData>> CausalPhases(
    const v1::JobSpec& spec, const DocumentParts& documents,
    const std::shared_ptr<const Tokenizer>& tokenizer,
    const InputFormat& format) {
  return OpenPhases(spec, [&](int32_t length) {
    CausalData::Options causal;
    causal.length = length;
    causal.seed = spec.training().seed();
    causal.format = format;
    return std::make_unique<CausalData>(causal, documents, tokenizer);
  });
}

absl::StatusOr<std::unique_ptr<TrainingData>> OpenCausal(
    const v1::JobSpec& spec, const TrainingData::Options& options) {
  const v1::DataSpec& data = spec.data();
  if (data.has_token_shards()) {
    FileCache cache(options.cache_dir, options.on_activity);
    ASSIGN_OR_RETURN(const OpenedShards shards,
                     OpenTokenShards(data.token_shards(), data.tokenizer(),
                                     &cache, options.on_activity));
    return CausalPhases(spec, shards.documents, shards.tokenizer, {});
  }
  if (!data.has_text() && !data.has_code_directory() && !data.has_jsonl()) {
    return absl::InvalidArgumentError(
        "data: CAUSAL_LM needs documents, so one of text, token_shards, "
        "code_directory and jsonl");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Corpus> corpus,
                   OpenCorpus(spec, options.on_activity));
  FileCache cache(options.cache_dir, options.on_activity);
  ASSIGN_OR_RETURN(
      OpenedTokenizer opened,
      OpenTokenizer(data.tokenizer(), *corpus, &cache, options.on_activity));
  ASSIGN_OR_RETURN(const DocumentParts documents,
                   OpenDocuments(*corpus, opened, options.max_memory_bytes,
                                 &cache, options.on_activity));
  return CausalPhases(spec, documents, std::move(opened.tokenizer),
                      corpus->format());
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingData>> OpenTrainingData(
    const v1::JobSpec& spec, const TrainingData::Options& options) {
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    return OpenClickData(spec, options);
  }
  RETURN_IF_ERROR(CheckLengths(spec));
  if (spec.model().family() == v1::ModelSpec::CAUSAL_LM) {
    return OpenCausal(spec, options);
  }
  return OpenPhases(
      spec, [&](int32_t length) { return OpenTexts(spec, length, options); });
}

}  // namespace comera::trainer
