#ifndef COMERA_WORKER_TRAINER_PREDICT_LINE_INPUT_H_
#define COMERA_WORKER_TRAINER_PREDICT_LINE_INPUT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::trainer {

// Lines from a descriptor in bounded memory, for a reader who waits for the
// descriptor himself:
//
//   while (!input.ended()) {
//     ... poll(input.descriptor()) ...
//     RETURN_IF_ERROR(input.Read());
//     std::string line;
//     while (*input.PopLine(&line)) ...
//   }
//
// Not thread-safe.
class LineInput {
 public:
  LineInput(int descriptor, size_t longest_line)
      : descriptor_(descriptor), longest_line_(longest_line) {}

  int descriptor() const { return descriptor_; }
  // Nothing more can be read; lines may be left.
  bool ended() const { return ended_; }

  // Reads once what is there, or waits for it. Unavailable: broken.
  absl::Status Read();
  // The next line that has been read, without its end; false: there is none. A
  // last line needs no end. ResourceExhausted: longer than the longest.
  absl::StatusOr<bool> PopLine(std::string* line);

 private:
  const int descriptor_;
  const size_t longest_line_;
  std::string buffer_;
  size_t begin_ = 0;     // the next line begins here
  size_t searched_ = 0;  // no line ends between begin_ and here
  bool ended_ = false;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_LINE_INPUT_H_
