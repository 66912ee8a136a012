// Implements Shrink: greedy, piece by piece, until nothing can go.
#include "tests/server/scheduler/scenario_shrinker.h"

#include <algorithm>
#include <functional>

namespace comera::server {
namespace {

class Shrinker {
 public:
  Shrinker(Scenario scenario, const Decider& decide, const std::string& rule,
           int plays)
      : scenario_(std::move(scenario)),
        decide_(decide),
        rule_(rule),
        plays_(plays) {}

  Scenario Run() {
    while (DropJobs() || DropWorkers() || Simplify()) {
    }
    return scenario_;
  }

 private:
  // Keeps the change if the rule is still broken.
  bool Try(const std::function<bool(Scenario&)>& change) {
    Scenario smaller = scenario_;
    if (plays_ <= 0 || !change(smaller)) return false;
    --plays_;
    const Played played = ClusterPlayer(smaller, decide_).Play();
    if (!played.violation || played.violation->rule != rule_) return false;
    // Nothing that comes later matters.
    if (smaller.kind != Scenario::kBacklog) {
      smaller.minutes = std::min(smaller.minutes, played.minutes);
    }
    scenario_ = std::move(smaller);
    return true;
  }

  bool DropJobs() {
    bool any = false;
    for (size_t chunk = scenario_.jobs.size(); chunk > 0; chunk /= 2) {
      for (size_t at = 0; at < scenario_.jobs.size();) {
        const bool dropped = Try([&](Scenario& s) {
          s.jobs.erase(s.jobs.begin() + at,
                       s.jobs.begin() + std::min(at + chunk, s.jobs.size()));
          return true;
        });
        any = any || dropped;
        if (!dropped) at += chunk;
      }
    }
    return any;
  }

  bool DropWorkers() {
    bool any = false;
    for (size_t i = scenario_.workers.size(); i-- > 0;) {
      any |= Try([&](Scenario& s) {
        s.workers.erase(s.workers.begin() + i);
        return !s.workers.empty();
      });
      if (i >= scenario_.workers.size()) continue;
      any |= Try([&](Scenario& s) { return s.workers[i].slots-- > 1; });
      any |= Try([&](Scenario& s) {
        const bool had = s.workers[i].unfit > 0;
        s.workers[i].unfit = 0;
        return had;
      });
    }
    return any;
  }

  bool Simplify() {
    bool any = false;
    for (size_t i = 0; i < scenario_.jobs.size(); ++i) {
      const auto set = [&](auto member, auto value) {
        any |= Try([&](Scenario& s) {
          if (s.jobs[i].*member == value) return false;
          s.jobs[i].*member = value;
          return true;
        });
      };
      set(&PlannedJob::sizes, std::vector<int32_t>());
      set(&PlannedJob::word, PlannedJob::kSilent);
      set(&PlannedJob::user, 0);
      set(&PlannedJob::priority, 0);
      set(&PlannedJob::preemptible, true);
      any |= Try([&](Scenario& s) {
        return s.jobs[i].sizes.empty() && s.jobs[i].processes-- > 1;
      });
      any |= Try([&](Scenario& s) {
        if (s.jobs[i].length < 2) return false;
        s.jobs[i].length /= 2;
        return true;
      });
    }
    return any;
  }

  Scenario scenario_;
  const Decider& decide_;
  const std::string rule_;
  int plays_;
};

}  // namespace

Scenario Shrink(Scenario scenario, const Decider& decide,
                const std::string& rule, int plays) {
  return Shrinker(std::move(scenario), decide, rule, plays).Run();
}

}  // namespace comera::server
