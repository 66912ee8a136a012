#include "server/scheduler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace comera::server {
namespace {

// Free and all slots of one device over the cluster.
class Pool {
 public:
  struct Room {
    std::string worker;
    std::vector<int32_t> free;
  };

  explicit Pool(const char* name) : name_(name) {}

  void Add(const std::string& worker, const std::vector<int32_t>& free,
           int32_t total, int32_t unfit) {
    total_ += total;
    unfit_ += unfit;
    free_ += static_cast<int32_t>(free.size());
    if (!free.empty()) rooms_.push_back({worker, free});
  }

  // Takes all slots for `job`, or none (empty).
  std::vector<RankPlace> Take(const PendingJob& job) {
    if (free_ < job.ranks) return {};
    std::vector<size_t> chosen = Choose(job);
    std::vector<RankPlace> places;
    for (size_t index : chosen) {
      Room& room = rooms_[index];
      size_t used = 0;
      while (used < room.free.size() &&
             static_cast<int32_t>(places.size()) < job.ranks) {
        places.push_back({room.worker, room.free[used++]});
      }
      room.free.erase(room.free.begin(), room.free.begin() + used);
    }
    free_ -= job.ranks;
    return places;
  }

  std::string Missing(const PendingJob& job) const {
    const std::string slots =
        absl::StrCat(job.ranks, total_ >= job.ranks ? " free " : " ", name_,
                     job.ranks == 1 ? " slot" : " slots");
    if (total_ == 0) {
      return absl::StrCat("waiting for ", slots, ", none is connected");
    }
    if (total_ < job.ranks) {
      return absl::StrCat("waiting for ", slots, ", the cluster has ", total_);
    }
    std::string text =
        absl::StrCat("waiting for ", slots, ", ", free_, " free");
    if (unfit_ > 0) absl::StrAppend(&text, ", ", unfit_, " unfit");
    return text;
  }

  bool FitsCluster(const PendingJob& job) const { return total_ >= job.ranks; }
  int32_t total() const { return total_; }

  bool blocked = false;

 private:
  static size_t Preference(const PendingJob& job, const std::string& worker) {
    return std::find(job.last_workers.begin(), job.last_workers.end(), worker) -
           job.last_workers.begin();
  }

  // Indices of rooms that together hold the gang, the last attempt's first.
  std::vector<size_t> Choose(const PendingJob& job) const {
    std::vector<size_t> all, before;
    int32_t free_before = 0;
    for (size_t i = 0; i < rooms_.size(); ++i) {
      if (rooms_[i].free.empty()) continue;
      all.push_back(i);
      if (Preference(job, rooms_[i].worker) < job.last_workers.size()) {
        before.push_back(i);
        free_before += static_cast<int32_t>(rooms_[i].free.size());
      }
    }
    std::vector<size_t> candidates =
        free_before >= job.ranks ? std::move(before) : std::move(all);
    std::vector<size_t> chosen;
    int32_t missing = job.ranks;
    while (missing > 0) {
      // The tightest room that holds all that is missing, else the largest.
      auto better = [&](size_t a, size_t b) {
        const auto free_a = static_cast<int32_t>(rooms_[a].free.size());
        const auto free_b = static_cast<int32_t>(rooms_[b].free.size());
        const bool holds_a = free_a >= missing, holds_b = free_b >= missing;
        if (holds_a != holds_b) return holds_a;
        const size_t preference_a = Preference(job, rooms_[a].worker);
        const size_t preference_b = Preference(job, rooms_[b].worker);
        if (holds_a && preference_a != preference_b) {
          return preference_a < preference_b;
        }
        if (free_a != free_b)
          return holds_a ? free_a < free_b : free_a > free_b;
        if (preference_a != preference_b) return preference_a < preference_b;
        return rooms_[a].worker < rooms_[b].worker;
      };
      auto best =
          std::min_element(candidates.begin(), candidates.end(), better);
      missing -= static_cast<int32_t>(rooms_[*best].free.size());
      chosen.push_back(*best);
      candidates.erase(best);
    }
    std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
      return Preference(job, rooms_[a].worker) <
             Preference(job, rooms_[b].worker);
    });
    return chosen;
  }

  const char* name_;
  int32_t total_ = 0;
  int32_t free_ = 0;
  int32_t unfit_ = 0;
  std::vector<Room> rooms_;
};

}  // namespace

Decision Scheduler::Decide(const ClusterSnapshot& snapshot) {
  Pool cpu("CPU"), gpu("GPU");
  for (const WorkerRoom& room : snapshot.workers) {
    cpu.Add(room.worker, room.free_cpu, room.total_cpu, room.unfit_cpu);
    gpu.Add(room.worker, room.free_gpu, room.total_gpu, room.unfit_gpu);
  }
  std::vector<const PendingJob*> order;
  order.reserve(snapshot.jobs.size());
  for (const PendingJob& job : snapshot.jobs) order.push_back(&job);
  std::sort(order.begin(), order.end(),
            [](const PendingJob* a, const PendingJob* b) {
              if (a->priority != b->priority) return a->priority > b->priority;
              return a->serial < b->serial;
            });
  Decision decision;
  for (const PendingJob* job : order) {
    const bool use_gpu =
        job->device == v1::ResourceSpec::GPU ||
        (job->device == v1::ResourceSpec::ANY && gpu.total() > 0);
    Pool& pool = use_gpu ? gpu : cpu;
    if (pool.blocked && pool.FitsCluster(*job)) {
      decision.waiting.push_back({job->job, "waiting for earlier jobs"});
      continue;
    }
    std::vector<RankPlace> places = pool.Take(*job);
    if (!places.empty()) {
      decision.placements.push_back({job->job, std::move(places)});
      continue;
    }
    decision.waiting.push_back({job->job, pool.Missing(*job)});
    if (pool.FitsCluster(*job)) pool.blocked = true;
  }
  return decision;
}

}  // namespace comera::server
