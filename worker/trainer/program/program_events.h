#ifndef COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_EVENTS_H_
#define COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_EVENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/progress.pb.h"

namespace comera::trainer {

// Turns what comera.torch.Run writes, a line of JSON for each event
// (docs/pytorch.md, "The interface to a job"), into events of a trainer, and
// keeps what is needed for the result. A program may write anything, so every
// field is checked. Not thread-safe.
class ProgramEvents {
 public:
  struct Options {
    int world_size = 1;
    // The device of the member, for people.
    std::string device;
    // The job's targets; 0 for none.
    double target_loss = 0;
    int64_t target_parameters = 0;
  };
  // A file into which the run has saved its state.
  struct Saved {
    int64_t step = 0;
    std::string path;
  };
  // How the run ended.
  struct Ended {
    // completed, target_met, stopped, failed or left.
    std::string outcome;
    // The exception of a failed one; may be empty.
    std::string error;
  };
  // What a line says.
  struct News {
    std::vector<v1::TrainerEvent> events;
    std::optional<Saved> saved;
  };

  explicit ProgramEvents(const Options& options) : options_(options) {}

  // A step's figures wait for its validation, and come before the next event of
  // another step. InvalidArgument: not an event of a run.
  absl::StatusOr<News> Read(std::string_view line);
  // The figures that still wait.
  std::vector<v1::TrainerEvent> Flush();

  bool started() const { return started_; }
  // The steps that are done, as far as the run has told.
  int64_t step() const { return step_; }
  v1::Stage stage() const { return stage_; }
  const std::optional<Ended>& ended() const { return ended_; }

  // The result of a run that ended with success. `finished` is false where it
  // was asked to end early: there is no outcome then.
  v1::TrainingResult Result(bool finished) const;

 private:
  // The fields of one line.
  class Fields;

  absl::Status OnStarted(const Fields& fields, News* news);
  absl::Status OnStep(const Fields& fields, News* news);
  absl::Status OnValidation(const Fields& fields, News* news);
  absl::Status OnRanks(const Fields& fields, News* news);
  absl::Status OnCheckpoint(const Fields& fields, News* news);
  absl::Status OnEnded(const Fields& fields);
  // Returns whether no other point beats it.
  bool AddToFront(const v1::ParetoPoint& point);
  // The figures of the run after a step, without those of a validation.
  v1::StepMetrics Metrics() const;
  bool HasTargets() const { return options_.target_parameters > 0; }

  const Options options_;
  bool started_ = false;
  int64_t step_ = 0;
  int64_t total_steps_ = 0;
  int64_t size_ = 0;
  v1::Stage stage_ = v1::EARLY;
  double loss_ = 0;
  double samples_per_second_ = 0;
  // The exponential average of the losses, and the sum of its weights.
  double loss_sum_ = 0;
  double loss_weight_ = 0;
  // When the first step was told, by the run's clock, in seconds.
  double first_time_ = 0;
  int64_t first_step_ = -1;
  double last_time_ = 0;
  double validation_loss_ = 0;
  bool validated_ = false;
  int64_t last_validation_ = 0;
  std::vector<v1::ParetoPoint> front_;
  // The ranks that each layer had first.
  std::map<std::string, std::vector<int32_t>> initial_ranks_;
  std::optional<Ended> ended_;
  // A step's figures.
  std::optional<v1::StepMetrics> waiting_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_EVENTS_H_
