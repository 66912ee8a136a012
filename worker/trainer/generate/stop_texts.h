#ifndef COMERA_WORKER_TRAINER_GENERATE_STOP_TEXTS_H_
#define COMERA_WORKER_TRAINER_GENERATE_STOP_TEXTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace comera::trainer {

// Lets a text that comes in pieces pass up to the first of some stop texts.
// What may be the beginning of one is held back until more is known. However
// the text is cut into pieces, the same of it passes.
//
// Not thread-safe.
class StopTexts {
 public:
  // None of `stops` is empty; all are UTF-8, as the pieces are.
  explicit StopTexts(std::vector<std::string> stops);

  // Takes a piece; returns what may be passed on, "" once a stop was found.
  std::string Add(absl::string_view piece);
  // The first stop text to be complete has been seen.
  bool found() const { return found_; }
  // What is held back, at the end of the text.
  std::string Finish();

 private:
  // Bytes at the end of held_ with which a stop may begin.
  size_t PossibleBeginning() const;

  const std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_STOP_TEXTS_H_
