// Words the outcome of a search.
#include "server/sweep/search_words.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace comera::server {
namespace {

// Other candidates that are named.
constexpr size_t kMaxNamed = 3;

std::string MethodOf(const std::string& label) {
  const std::vector<std::string> words = absl::StrSplit(label, ' ');
  return std::string(absl::StripPrefix(words.front(), "method="));
}

std::string WithFigures(const SearchTarget& target,
                        const SearchAccount& candidate) {
  return absl::StrCat(target.Name(), " ", FigureWords(candidate.quality),
                      " with ", SizeWords(candidate.size), " parameters");
}

// What is said of a candidate that was not chosen.
std::string Beside(const SearchTarget& target, const SearchAccount& candidate,
                   int64_t chosen_size) {
  const bool needed_more = target.has_quality && candidate.has_model &&
                           candidate.meets_quality &&
                           candidate.size > chosen_size;
  if (needed_more) {
    return absl::StrCat(CandidateWords(candidate.label), " needed ",
                        SizeWords(candidate.size), " parameters for it");
  }
  return absl::StrCat(CandidateWords(candidate.label),
                      candidate.has_model ? " ended at " : " was stopped at ",
                      WithFigures(target, candidate));
}

}  // namespace

std::string SizeWords(int64_t parameters) {
  std::string digits = absl::StrCat(parameters);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string FigureWords(double value) { return absl::StrFormat("%.4g", value); }

std::string CandidateWords(const std::string& label) {
  if (label.empty()) return "the job as it is";
  if (!absl::StartsWith(label, "method=")) return label;
  std::vector<std::string> settings;
  for (absl::string_view word : absl::StrSplit(label, ' ')) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (parts.first == "method") continue;
    if (parts.first == "output") {
      settings.push_back(parts.second + " output");
    } else if (parts.first == "rate") {
      settings.push_back("learning rate " + parts.second);
    } else if (parts.first == "shrunk_to") {
      settings.push_back(absl::StrCat("shrunk to ", parts.second));
    } else {
      settings.push_back(absl::StrCat(parts.first, " ", parts.second));
    }
  }
  return settings.empty() ? MethodOf(label)
                          : absl::StrCat(MethodOf(label), " with ",
                                         absl::StrJoin(settings, ", "));
}

std::string ExplainChoice(const SearchTarget& target,
                          const std::vector<SearchAccount>& candidates,
                          int chosen, bool met) {
  if (chosen < 0) {
    return absl::StrCat("none of ", candidates.size(),
                        " candidates ended with a model");
  }
  const SearchAccount& best = candidates[chosen];
  std::string text = absl::StrCat(CandidateWords(best.label), " reached ",
                                  WithFigures(target, best));
  std::vector<std::string> asked;
  if (target.has_quality) {
    asked.push_back(
        absl::StrCat(target.Name(), " ", FigureWords(target.quality)));
  }
  if (target.parameters > 0) {
    asked.push_back(
        absl::StrCat("at most ", SizeWords(target.parameters), " parameters"));
  }
  absl::StrAppend(&text, met ? " (target: " : ", and misses the target (",
                  absl::StrJoin(asked, ", "), ")");
  // The best of each other kind, and then the next best.
  std::vector<const SearchAccount*> others;
  size_t tried = 0, needless = 0;
  int learned = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    learned += candidates[i].learned ? 1 : 0;
    if (static_cast<int>(i) == chosen) continue;
    ++(candidates[i].needless ? needless : tried);
    if (candidates[i].measured) others.push_back(&candidates[i]);
  }
  const auto is_better = [&](const SearchAccount* a, const SearchAccount* b) {
    if (a->has_model != b->has_model) return a->has_model;
    const double a_gap = target.Shortfall(a->quality);
    const double b_gap = target.Shortfall(b->quality);
    if (a_gap != b_gap) return a_gap < b_gap;
    if (target.has_quality && a->size != b->size) return a->size < b->size;
    return target.IsBetter(a->quality, b->quality);
  };
  std::stable_sort(others.begin(), others.end(), is_better);
  std::vector<const SearchAccount*> named;
  for (const bool other_methods : {true, false}) {
    for (const SearchAccount* other : others) {
      if (named.size() == kMaxNamed) break;
      const bool known = std::any_of(
          named.begin(), named.end(), [&](const SearchAccount* one) {
            return one == other ||
                   (other_methods &&
                    MethodOf(one->label) == MethodOf(other->label));
          });
      if (!known) named.push_back(other);
    }
  }
  if (tried > 0) {
    absl::StrAppend(&text, "; ", tried,
                    tried == 1 ? " other was" : " others were", " tried");
    std::vector<std::string> sentences;
    for (const SearchAccount* other : named) {
      sentences.push_back(Beside(target, *other, best.size));
    }
    if (!sentences.empty()) {
      absl::StrAppend(&text, ": ", absl::StrJoin(sentences, "; "));
    }
  }
  if (needless > 0) {
    absl::StrAppend(&text, "; ", needless, needless == 1 ? " was" : " were",
                    " not begun, because a smaller model had met the target");
  }
  if (learned > 0) {
    absl::StrAppend(&text, "; ", learned,
                    learned == 1 ? " candidate" : " candidates",
                    " came from finished jobs on the same data");
  }
  return text;
}

}  // namespace comera::server
