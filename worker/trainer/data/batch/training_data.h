#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_TRAINING_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_TRAINING_DATA_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/click_shape.h"

namespace comera::trainer {

// The tokenised training, validation and test samples of one job.
//
// Everything is a function of the spec and the files: every member that opens
// the same spec sees the same samples, and batch contents depend on (seed,
// step), never on the number of members or on what was read before.
//
// A job with phases sees the corpus cut anew for each phase's length; what is
// reported of the samples is the last phase's.
//
// Thread safety: const methods may be called from several threads.
class TrainingData {
 public:
  struct Options {
    // Trained vocabularies and tokenised corpora; "" turns caching off. Safe to
    // share between processes: files appear whole, by rename.
    std::string cache_dir;
    // Documents of causal language models whose tokens take more are kept as
    // token shards in cache_dir, if there is one.
    int64_t max_memory_bytes = int64_t{256} << 20;
    // Called now and then while opening, e.g. "training vocabulary, 1200 of
    // 4096". May be empty.
    std::function<void(const std::string&)> on_activity;
  };

  virtual ~TrainingData() = default;

  virtual int64_t train_samples() const = 0;
  virtual int64_t validation_samples() const = 0;
  // 0: there is no test set.
  virtual int64_t test_samples() const { return 0; }
  virtual int32_t vocabulary_size() const = 0;
  // Classes of the labels; 0 for tokens and clicks.
  virtual int32_t classes() const { return 0; }
  // Cross-entropy (nats) on the validation labels of the training set's label
  // distribution: unigram of tokens for language models (add-one smoothed),
  // class frequencies for classifiers. Click logs: the entropy of the
  // validation set's click rate.
  virtual double baseline_loss() const = 0;
  // Causal language models: UTF-8 bytes of the validation documents per token
  // that is predicted in them. A mean loss (nats) is loss / ln 2 / this many
  // bits per byte.
  virtual std::optional<double> validation_bytes_per_token() const {
    return std::nullopt;
  }
  // The same of the test set, if there is one.
  virtual std::optional<double> test_bytes_per_token() const {
    return std::nullopt;
  }

  // How often each token of the vocabulary is in the training samples (of
  // causal language models: is a label in them); empty for clicks. A masked
  // language model's mask counts as often as it takes a token's place on
  // average.
  virtual std::vector<int64_t> TokenCounts() const { return {}; }

  // What the batches of a click log hold; null for tokens.
  virtual const ClickShape* clicks() const { return nullptr; }
  // AUC that the true click probabilities reach on the first `samples`
  // validation samples, where they are known.
  virtual std::optional<double> ideal_auc(int64_t /*samples*/) const {
    return std::nullopt;
  }

  // Member `rank`'s share of step `step`'s global batch (steps from 0). Each
  // epoch is a seeded permutation of all samples; batches run on over epoch
  // boundaries. batch_size is the global batch, a multiple of world_size.
  // Shares have equally many samples; where those differ in length they are
  // dealt so that shares have about equally many tokens (deal_samples.h), else
  // they are contiguous.
  virtual absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                                  int world_size, Batch* batch) const = 0;
  // Samples [first, first + count) of the validation set in an order that the
  // seed shuffles, count clipped at the end: the first ones are a random sample
  // of the set. Masks of masked LM are fixed (a function of seed and sample).
  virtual absl::Status ValidationBatch(int64_t first, int64_t count,
                                       Batch* batch) const = 0;
  // The same of the test set.
  virtual absl::Status TestBatch(int64_t /*first*/, int64_t /*count*/,
                                 Batch* /*batch*/) const {
    return absl::FailedPreconditionError("there is no test set");
  }

  // Writes what is exported beside a model for its users: the
  // tokenizer's files and how rows are read (input_format.h).
  virtual absl::Status SaveTokenizer(const std::string& directory) const = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_TRAINING_DATA_H_
