#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_TOKENIZER_SWAP_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_TOKENIZER_SWAP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Replaces the tokenizer in a folder of token shards, which may be the only
// copy of the one that its user gave: whatever interrupts this, the old or the
// new one is there as a whole. Files of other names are kept.
//
// One process at a time; errors of ErrnoStatus.
class TokenizerSwap {
 public:
  // `shards` is the folder of the shards.
  explicit TokenizerSwap(const std::string& shards);

  // The tokenizer's folder.
  const std::string& path() const { return path_; }

  // Puts files back that an interrupted Replace has moved away. To be called
  // before anything in the folder is opened.
  absl::Status Recover() const;
  // Puts `tokenizer`, whose digest is given, in the place of the old one.
  // `before` is called before each durable change; its errors end this.
  // Internal: the tokenizer is not saved as it is.
  absl::Status Replace(const Tokenizer& tokenizer, const std::string& digest,
                       const std::function<absl::Status()>& before) const;
  // Removes what an interrupted Replace has left, once path() holds the
  // tokenizer that is wanted.
  absl::Status RemoveReplaced() const;

 private:
  absl::Status Exchange() const;

  // The new tokenizer until it is whole, and the old one after that; the old
  // one where two folders cannot be exchanged in one step.
  const std::string shards_, path_, new_, old_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_TOKENIZER_SWAP_H_
