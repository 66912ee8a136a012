// Ranks the candidates of a search, and chooses among its results.
#include "server/sweep/search_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/sweep/search_words.h"

namespace comera::server {
namespace {

bool Beats(const SearchTarget& target, const SearchEntrant& a,
           const SearchEntrant& b) {
  if (a.present > b.size || target.IsBetter(b.quality, a.quality) ||
      target.IsBetter(b.hope, a.hope)) {
    return false;
  }
  if (target.IsBetter(a.quality, b.quality)) return true;
  return a.loss <= b.loss && (a.present < b.size || a.loss < b.loss);
}

// A candidate with all that decides its place.
struct Ranked {
  const SearchEntrant* entrant = nullptr;
  size_t order = 0;
  // How many others beat it, and one of them.
  int beaten = 0;
  const SearchEntrant* better = nullptr;

  // Smaller is better.
  auto Key(const SearchTarget& target) const {
    const double gap =
        entrant->speeding_up ? 0 : target.Shortfall(entrant->hope);
    // Without a target quality the metric takes the place of the gap.
    const double distance = target.has_quality          ? gap
                            : target.higher_is_better() ? -entrant->quality
                                                        : entrant->quality;
    // Candidates that will meet the quality are told apart by size alone.
    double loss = target.has_quality && gap <= 0 ? 0 : entrant->loss;
    if (!std::isfinite(loss)) loss = std::numeric_limits<double>::max();
    // A candidate that promises the quality is not judged by what others have
    // today: they may still miss it.
    const int beaten_by = target.has_quality && gap <= 0 ? 0 : beaten;
    return std::make_tuple(!entrant->measured, beaten_by, distance, loss,
                           entrant->size, order);
  }
};

std::string WhyStopped(const SearchTarget& target, const Ranked& worse,
                       size_t keep) {
  const SearchEntrant& entrant = *worse.entrant;
  if (!entrant.measured) {
    return "stopped: it had no validation within its share of the budget";
  }
  if (worse.better != nullptr) {
    return absl::StrCat("stopped: ", worse.better->name, " has ", target.Name(),
                        " ", FigureWords(worse.better->quality), " with ",
                        SizeWords(worse.better->present),
                        " parameters, this one ", FigureWords(entrant.quality),
                        " with ", SizeWords(entrant.size));
  }
  return absl::StrCat(
      "stopped: ", target.Name(), " ", FigureWords(entrant.quality), " with ",
      SizeWords(entrant.size), " parameters, farther from the target",
      target.has_quality ? absl::StrCat(" ", FigureWords(target.quality)) : "",
      " than the ", keep, " that go on");
}

std::string WhyDisplaced(const SearchTarget& target,
                         const SearchEntrant& entrant,
                         const SearchEntrant& late) {
  return absl::StrCat(
      "stopped: ", target.Name(), " ", FigureWords(entrant.quality), " with ",
      SizeWords(entrant.size), " parameters; its place is kept for ", late.name,
      ", which learns late");
}

// Puts the best that learns late in the last of the first `keep` places, if
// none of them has such a one, and returns it. Those behind move back by one
// place.
const SearchEntrant* KeepALateLearner(size_t keep,
                                      std::vector<Ranked>* ranked) {
  if (keep < 2 || keep >= ranked->size()) return nullptr;
  const auto is_late = [](const Ranked& one) {
    return one.entrant->measured && one.entrant->learns_late;
  };
  const auto end = ranked->begin() + static_cast<int64_t>(keep);
  if (std::any_of(ranked->begin(), end, is_late)) return nullptr;
  const auto late = std::find_if(end, ranked->end(), is_late);
  if (late == ranked->end()) return nullptr;
  std::rotate(end - 1, late, late + 1);
  return (end - 1)->entrant;
}

}  // namespace

std::vector<SearchStop> StopWorse(const SearchTarget& target,
                                  const std::vector<SearchEntrant>& entrants,
                                  size_t keep) {
  std::vector<SearchStop> stops;
  std::vector<Ranked> ranked;
  for (const SearchEntrant& entrant : entrants) {
    Ranked one;
    one.entrant = &entrant;
    one.order = ranked.size();
    ranked.push_back(one);
  }
  for (Ranked& one : ranked) {
    if (!one.entrant->measured) continue;
    for (const Ranked& other : ranked) {
      if (!other.entrant->measured ||
          !Beats(target, *other.entrant, *one.entrant)) {
        continue;
      }
      ++one.beaten;
      if (one.better == nullptr ||
          target.IsBetter(other.entrant->quality, one.better->quality)) {
        one.better = other.entrant;
      }
    }
  }
  std::sort(ranked.begin(), ranked.end(),
            [&](const Ranked& a, const Ranked& b) {
              return a.Key(target) < b.Key(target);
            });
  const SearchEntrant* const late =
      target.has_quality ? nullptr : KeepALateLearner(keep, &ranked);
  for (size_t i = keep; i < ranked.size(); ++i) {
    const bool displaced = late != nullptr && i == keep;
    stops.push_back({ranked[i].entrant->id,
                     displaced ? WhyDisplaced(target, *ranked[i].entrant, *late)
                               : WhyStopped(target, ranked[i], keep)});
  }
  return stops;
}

std::optional<SearchChoice> ChooseModel(
    const SearchTarget& target, const std::vector<SearchResult>& results) {
  const SearchResult* best = nullptr;
  const auto is_met = [&](const SearchResult& result) {
    return target.MeetsSize(result.size) && result.meets_quality;
  };
  const auto is_better = [&](const SearchResult& a, const SearchResult& b) {
    const bool a_fits = target.MeetsSize(a.size);
    const bool b_fits = target.MeetsSize(b.size);
    if (a_fits != b_fits) return a_fits;
    if (!a_fits) return a.size < b.size;
    if (target.has_quality) {
      if (a.meets_quality != b.meets_quality) return a.meets_quality;
      const double a_gap = target.Shortfall(a.quality);
      const double b_gap = target.Shortfall(b.quality);
      if (a_gap != b_gap) return a_gap < b_gap;
      if (a.size != b.size) return a.size < b.size;
    }
    return target.IsBetter(a.quality, b.quality);
  };
  for (const SearchResult& result : results) {
    if (best == nullptr || is_better(result, *best)) best = &result;
  }
  if (best == nullptr) return std::nullopt;
  return SearchChoice{best->id, is_met(*best)};
}

}  // namespace comera::server
