#ifndef COMERA_WORKER_TRAINER_GENERATE_CACHED_DECODER_H_
#define COMERA_WORKER_TRAINER_GENERATE_CACHED_DECODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/generate/folded_decoder.h"
#include "worker/trainer/generate/key_value_cache.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// A token that goes through the model.
struct NewToken {
  int64_t slot = 0;      // where its text is
  int64_t position = 0;  // in its text, from 0
  int32_t id = 0;
  bool logits = false;  // whether the logits of the next token are wanted
};

// A causal language model that remembers the keys and values of the texts it
// has seen, so that a token more costs one row of every product. The texts are
// in slots, and a step takes any number of tokens of any slots.
//
//   ASSIGN_OR_RETURN(auto decoder, CachedDecoder::Create(...));
//   std::vector<float> logits;
//   RETURN_IF_ERROR(decoder->Step({{0, 0, 17}, {0, 1, 4, true}}, &logits));
//   RETURN_IF_ERROR(decoder->Step({{0, 2, 30, true}}, &logits));
//
// Allocates when made and not again. Not thread-safe.
class CachedDecoder {
 public:
  // A text that grows waits for the others' prompts as long as a step takes. On
  // two cores, with seven texts beside a prompt of 1,536 tokens, 64 tokens a
  // step make that wait half as long as 128, and the prompt takes as long; with
  // 32 it takes up to twice as long (tests/bench/generation.cc, --pieces). The
  // number for devices is not measured.
  static constexpr int64_t kHostChunk = 64, kDeviceChunk = 128;

  struct Options {
    int64_t max_slots = 8;
    // Keys and values take so much, or what one slot needs if that is more.
    int64_t max_cache_bytes = int64_t{1} << 30;
    // Tokens of a step at most, beside one of each slot; at least max_slots
    // are taken. 0: kHostChunk or kDeviceChunk.
    int64_t chunk = 0;
  };

  // `config`: of the family causal_lm. `parameters`: see ModelParts; they and
  // the backend outlive the decoder. ResourceExhausted: does not fit.
  static absl::StatusOr<std::unique_ptr<CachedDecoder>> Create(
      const ModelConfig& config, const float* parameters,
      const Options& options, kernels::Backend* backend);

  int64_t slots() const { return cache_->slots(); }
  // Tokens that a text may have.
  int64_t length() const { return config_.length; }
  int64_t vocabulary() const { return config_.vocabulary; }
  // Tokens of a step at most, beside one of each slot; at least slots().
  int64_t chunk() const { return chunk_; }
  int64_t max_rows() const { return max_rows_; }
  const FoldedDecoder& layers() const { return layers_; }

  // Runs the tokens. Those of a slot follow each other, and what stands before
  // them in their text went through the model earlier, from position 0 on; a
  // slot begins a new text with position 0. `logits` gets (wanted, vocabulary),
  // in the order of the tokens. InvalidArgument: more than max_rows() tokens,
  // more than slots() wanted, or a token outside the limits.
  absl::Status Step(absl::Span<const NewToken> tokens,
                    std::vector<float>* logits);

 private:
  // What the operations of a step read beside the weights.
  struct Rows {
    int64_t count = 0, wanted = 0;
    int64_t most = 0;  // tokens that the longest text has by now
    kernels::ConstIndices ids, positions, kept, first, counts, last;
  };
  using Piece = kernels::Arena::Piece;

  CachedDecoder(const ModelConfig& config, int64_t chunk, int64_t max_slots,
                kernels::Backend* backend);
  void ReserveScratch();
  absl::Status Check(absl::Span<const NewToken> tokens) const;
  absl::StatusOr<Rows> CopyRows(absl::Span<const NewToken> tokens);
  kernels::Matrix Scratch(Piece piece, int64_t rows, int64_t cols) const {
    return kernels::Matrix(arena_.Floats(piece), rows, cols);
  }

  absl::Status Embed(const Rows& rows, kernels::Matrix stream);
  absl::Status Norm(const FoldedNorm& norm, kernels::ConstMatrix x,
                    kernels::Matrix y);
  absl::Status Attend(const Rows& rows, const AttentionLayers& layers,
                      int64_t block, kernels::ConstMatrix x,
                      kernels::Matrix stream);
  absl::Status FeedForward(const FoldedFfn& layers, kernels::ConstMatrix x,
                           kernels::Matrix stream);
  absl::Status RunHead(const Rows& rows, kernels::ConstMatrix stream,
                       std::vector<float>* logits);

  const ModelConfig config_;
  const int64_t chunk_, max_rows_;
  kernels::Backend* const backend_;
  FoldedDecoder layers_;
  std::unique_ptr<KeyValueCache> cache_;
  kernels::Arena arena_;
  std::vector<int32_t> indices_;  // host copy of index_
  Piece index_ = 0, stream_ = 0, normed_ = 0, normalised_ = 0, deviation_ = 0,
        factor_ = 0, query_ = 0, key_ = 0, value_ = 0, context_ = 0, gate_ = 0,
        up_ = 0, last_ = 0, logits_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_CACHED_DECODER_H_
