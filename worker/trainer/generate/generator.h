#ifndef COMERA_WORKER_TRAINER_GENERATE_GENERATOR_H_
#define COMERA_WORKER_TRAINER_GENERATE_GENERATOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"
#include "common/clock.h"
#include "kernels/backend.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/generate/cached_decoder.h"
#include "worker/trainer/generate/generation.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// What a step adds to a text: a piece, the last of which has `finish`, or an
// error that ends it.
struct GeneratedPiece {
  int64_t number = 0;  // the number that the request was given
  absl::StatusOr<v1::GenerateResponse> response;
};

// Continues several texts at the same time with one model. A step takes one
// token of each text that is growing, and at most CachedDecoder::chunk() tokens
// of the prompts of those that are new, however long these are: texts join and
// leave while others go on. New texts share these tokens evenly, and what a
// short prompt leaves is for the others, so that none waits for a long one.
//
//   RETURN_IF_ERROR(generator->Start(7, request));
//   std::vector<GeneratedPiece> pieces;
//   while (!generator->idle()) RETURN_IF_ERROR(generator->Step(&pieces));
//
// The random numbers of a text depend on its request alone; its logits may
// differ in rounding with the number of tokens that share the steps.
//
// Not thread-safe.
class Generator {
 public:
  // Texts that may wait for others to end.
  static constexpr int64_t kMaxWaiting = 64;

  struct Options {
    CachedDecoder::Options decoder;
    // Tells first_token_seconds and generation_seconds.
    Clock* clock = Clock::Real();
  };

  // `config`: of the family causal_lm. `parameters`: see ModelParts; they, the
  // tokenizer and the backend outlive the generator. ResourceExhausted: does
  // not fit.
  static absl::StatusOr<std::unique_ptr<Generator>> Create(
      const ModelConfig& config, const float* parameters,
      const Options& options, Tokenizer* tokenizer, kernels::Backend* backend);

  // Texts that grow at the same time at most; further ones wait.
  int64_t slots() const { return static_cast<int64_t>(running_.size()); }
  bool idle() const { return order_.empty(); }

  // Begins a text, whose pieces will have `number`. InvalidArgument: the
  // request, or a text of this number has not ended. ResourceExhausted: too
  // many wait.
  absl::Status Start(int64_t number, const v1::GenerateRequest& request);
  // Ends a text, if it has not ended, without another piece.
  void Cancel(int64_t number);
  // Runs the model once, unless idle, and appends what that gives. Errors are
  // those of the engine, after which nothing may be called.
  absl::Status Step(std::vector<GeneratedPiece>* pieces);

 private:
  using Slot = std::unique_ptr<Generation>;  // null: free

  Generator(const Options& options, std::unique_ptr<CachedDecoder> decoder,
            Tokenizer* tokenizer);
  bool Has(int64_t number) const;
  // Lets texts that wait take the free slots.
  void FillSlots();
  // Puts together the tokens of a step.
  void CollectTokens();
  // Divides what a step takes of prompts among the new texts.
  void AddPrompts();
  void End(int64_t slot);

  Clock* const clock_;
  Tokenizer* const tokenizer_;
  const std::unique_ptr<CachedDecoder> decoder_;
  std::vector<Slot> running_;
  std::vector<int64_t> order_;  // slots in use, in the order of their start
  std::deque<std::unique_ptr<Generation>> waiting_;
  // These keep their memory from step to step.
  std::vector<int64_t> new_slots_;  // texts whose prompts are not through
  std::vector<NewToken> tokens_;
  std::vector<float> logits_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_GENERATOR_H_
