// What a search says of its candidates and its result, in plain words.
#ifndef COMERA_SERVER_SWEEP_SEARCH_WORDS_H_
#define COMERA_SERVER_SWEEP_SEARCH_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/sweep/search_target.h"

namespace comera::server {

// E.g. "61,203".
std::string SizeWords(int64_t parameters);
// E.g. "0.8125": at most four significant digits.
std::string FigureWords(double value);
// A run's label in words: "comera with width 128, rank 16" for "method=comera
// width=128 rank=16".
std::string CandidateWords(const std::string& label);

// A candidate of a search that is over.
struct SearchAccount {
  std::string label;
  bool measured = false;
  bool has_model = false;
  int64_t size = 0;
  double quality = 0;
  // It has a model that meets the quality, with the confidence asked for.
  bool meets_quality = false;
  // Finished jobs that the search learned from proposed it.
  bool learned = false;
  // It was never begun: a smaller model had met the target by then.
  bool needless = false;
};

// Why the search ends with `chosen`, an index into `candidates`, or with none
// of them (-1). `met`: it meets the targets.
std::string ExplainChoice(const SearchTarget& target,
                          const std::vector<SearchAccount>& candidates,
                          int chosen, bool met);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SEARCH_WORDS_H_
