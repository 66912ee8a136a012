// Whether a run of a sweep may be stopped early.
#ifndef COMERA_SERVER_SWEEP_DOMINANCE_RULE_H_
#define COMERA_SERVER_SWEEP_DOMINANCE_RULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "comera/v1/sweep_service.pb.h"
#include "server/sweep/sweep_record.pb.h"

namespace comera::server {

struct DominanceOptions {
  // By how much of its value a point must be beaten, in both.
  double margin = 0.05;
  // Share of its planned steps that a run may always do.
  double min_progress = 0.5;
  // Validations to have been seen, and in a row to have been hopeless at.
  int min_validations = 4;
  int strikes = 3;
};

// Validations that are looked at.
inline constexpr int kDominanceHistory = 12;

// A run as the rule sees it.
struct DominanceSubject {
  int64_t step = 0;
  int64_t total_steps = 0;
  // Smallest size it is asked for, in parameters; 0: it has no target, and its
  // size no lower bound (COMERA), so that it is never stopped.
  int64_t final_size = 0;
  // Newest validations, oldest first.
  std::vector<ValidationSample> validations;
  // Its own front.
  std::vector<v1::ParetoPoint> points;
};

// True iff, by all that is known, no model that the run can still come to would
// be on the front of `others`, the points of the other runs:
//  - it has done min_progress of its steps and min_validations validations;
//  - its size is final: at most final_size at the newest validation;
//  - each of its own points is beaten by `margin` in both loss and size;
//  - so is the best that it can hope for: its final size, at a loss that falls
//    over all steps left as steeply as between any two neighbouring validations
//    that are known. (Losses flatten; this one does not.)
// `why` says by which point.
bool IsHopeless(const DominanceSubject& subject,
                const std::vector<v1::FrontPoint>& others,
                const DominanceOptions& options, std::string* why);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_DOMINANCE_RULE_H_
