#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_TEXT_STREAM_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_TEXT_STREAM_H_

#include <cstdint>
#include <string>

#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// The text of ids that come one at a time, as valid UTF-8. The bytes of a
// character whose rest is still to come are held back; bytes that no character
// has become U+FFFD. All pieces together are Tokenizer::Decode of all ids where
// that is UTF-8.
//
// Not thread safe.
class TextStream {
 public:
  enum class Start {
    // The ids begin a text.
    kText,
    // The ids follow a text that was there before, such as a prompt.
    kMiddle,
  };

  // `tokenizer` outlives the stream.
  TextStream(const Tokenizer* tokenizer, Start start);

  // The text that `id` completes, often "". Ids outside the vocabulary are left
  // out.
  std::string Add(int32_t id);

  // What was held back, as U+FFFD; the stream is then in the middle of a text.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool drop_space_;
  std::string bytes_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_TEXT_STREAM_H_
