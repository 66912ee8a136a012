#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_ADDED_TOKENS_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_ADDED_TOKENS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/prefix_trie.h"

namespace comera::trainer {

// A token that is found in a text as it is written, before the text is split
// into words: "<|endoftext|>" and the like.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  // Spaces to the left or right of the token belong to it.
  bool strips_left = false;
  bool strips_right = false;
  // The token is looked for only where no other was found.
  bool normalized = false;
  // The token marks something and is no text.
  bool special = false;
};

// Finds added tokens as the tokenizers library does: of several at one place
// the longest.
//
// Thread safety: const methods may overlap.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Calls visit(part, id) for the parts of `text` in order: `id` is that of an
  // added token, or -1 for text, which is not empty.
  using Visit = std::function<void(absl::string_view part, int32_t id)>;
  void Split(absl::string_view text, const Visit& visit) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  void SplitBy(const PrefixTrie& trie, absl::string_view text,
               const Visit& visit) const;

  const std::vector<AddedToken> tokens_;
  // Contents to indexes of tokens_.
  PrefixTrie first_;
  PrefixTrie normalized_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_ADDED_TOKENS_H_
