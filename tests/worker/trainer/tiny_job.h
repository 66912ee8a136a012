// A job small enough to train in a test: its specification, its data, and
// checkpoint files in memory.
#ifndef COMERA_TESTS_WORKER_TRAINER_TINY_JOB_H_
#define COMERA_TESTS_WORKER_TRAINER_TINY_JOB_H_

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comera/v1/job.pb.h"
#include "google/protobuf/text_format.h"
#include "proto/job_defaults.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/state/checkpoint.h"

namespace comera::trainer {

// A masked language model of a few thousand parameters; early stage only.
inline v1::JobSpec TinySpec() {
  v1::JobSpec spec;
  const bool parsed = google::protobuf::TextFormat::ParseFromString(
      R"pb(
        model { family: MASKED_LM layers: 1 hidden: 16 ffn: 32 heads: 2 }
        data { max_length: 8 }
        compression {
          method: COMERA
          embedding {
            input_modes: [ 4, 8 ]
            output_modes: [ 4, 4 ]
            ranks: 6
          }
          attention {
            input_modes: [ 4, 4 ]
            output_modes: [ 4, 4 ]
            ranks: 4
          }
          ffn_up {
            input_modes: [ 4, 4 ]
            output_modes: [ 4, 8 ]
            ranks: 4
          }
          ffn_down {
            input_modes: [ 8, 4 ]
            output_modes: [ 4, 4 ]
            ranks: 4
          }
          head {
            input_modes: [ 4, 4 ]
            output_modes: [ 4, 4 ]
            ranks: 4
          }
          output { dense: true }
          compact_every_steps: 5
        }
        objective {
          kind: PARETO
          early { steps: 30 gamma: 0.5 }
        }
        optimizer {
          learning_rate_cores: 0.01
          learning_rate_ranks: 0.05
          learning_rate_other: 0.01
        }
        training {
          batch_size: 8
          seed: 7
          report_every_steps: 1
          validate_every_steps: 10
        }
        checkpoint { every_steps: 10 }
      )pb",
      &spec);
  if (!parsed) std::abort();
  return WithDefaults(spec);
}

// Sentences that repeat one word of seven with two places hidden: easy to
// learn, with a baseline of ln 7.
class FakeTrainingData : public TrainingData {
 public:
  static constexpr int64_t kLength = 8;
  static constexpr int32_t kWords = 7;

  explicit FakeTrainingData(int64_t length = kLength) : length_(length) {}

  int64_t train_samples() const override { return 200; }
  int64_t validation_samples() const override { return validation_samples_; }
  int32_t vocabulary_size() const override { return 32; }
  double baseline_loss() const override { return std::log(7.0); }
  // The most frequent tokens are 30, 27 and 24.
  std::vector<int64_t> TokenCounts() const override {
    std::vector<int64_t> counts(vocabulary_size());
    for (int32_t id = 0; id < vocabulary_size(); ++id) {
      counts[id] = id % 3 == 0 ? id : 0;
    }
    return counts;
  }

  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    if (step == failing_step_) {
      return absl::DataLossError("corpus.txt:17: malformed");
    }
    const int64_t share = batch_size / world_size;
    Fill(step * batch_size + rank * share, share, batch);
    batch->first_sample = rank * share;
    return absl::OkStatus();
  }

  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override {
    Fill(1000000 + first,
         std::max<int64_t>(0, std::min(count, validation_samples_ - first)),
         batch);
    batch->first_sample = first;
    return absl::OkStatus();
  }

  absl::Status SaveTokenizer(const std::string&) const override {
    return absl::OkStatus();
  }

  void set_validation_samples(int64_t n) { validation_samples_ = n; }
  void set_failing_step(int64_t step) { failing_step_ = step; }

 private:
  static uint64_t Hash(uint64_t x) {
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return (x ^ (x >> 29)) >> 7;
  }

  void Fill(int64_t first, int64_t count, Batch* batch) const {
    *batch = Batch();
    batch->size = count;
    batch->length = length_;
    batch->segments.resize(count * length_);
    batch->mask.resize(count * length_, 1);
    for (int64_t s = 0; s < count; ++s) {
      const uint64_t hash = Hash(static_cast<uint64_t>(first + s));
      const auto word = static_cast<int32_t>(1 + hash % kWords);
      const auto hidden = static_cast<int64_t>(hash / kWords % (length_ - 1));
      for (int64_t i = 0; i < length_; ++i) {
        const bool hide = i == hidden || i == hidden + 1;
        batch->ids.push_back(hide ? 0 : word);
        if (!hide) continue;
        batch->label_rows.push_back(static_cast<int32_t>(s * length_ + i));
        batch->labels.push_back(word);
      }
    }
  }

  const int64_t length_;
  int64_t validation_samples_ = 24;
  int64_t failing_step_ = -1;
};

// What outlives a trainer; each trainer gets a view of it.
struct FakeDisk {
  std::map<std::string, std::string> files;
  bool full = false;
  // Files that cannot be read.
  std::map<std::string, absl::Status> unreadable;
};

class FakeCheckpointFiles : public CheckpointFiles {
 public:
  explicit FakeCheckpointFiles(FakeDisk* disk) : disk_(disk) {}

  absl::StatusOr<std::vector<std::string>> List() override {
    std::vector<std::string> names;
    for (const auto& [name, contents] : disk_->files) names.push_back(name);
    return names;
  }
  absl::StatusOr<std::string> Read(const std::string& name) override {
    const auto bad = disk_->unreadable.find(name);
    if (bad != disk_->unreadable.end()) return bad->second;
    return disk_->files.at(name);
  }
  absl::Status Write(const std::string& name,
                     std::string_view contents) override {
    if (disk_->full) {
      return absl::ResourceExhaustedError("No space left on device");
    }
    disk_->files[name] = std::string(contents);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& name) override {
    disk_->files.erase(name);
    return absl::OkStatus();
  }

 private:
  FakeDisk* const disk_;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_TINY_JOB_H_
