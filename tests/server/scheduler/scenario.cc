// Makes random scenarios, and writes them as code.
#include "tests/server/scheduler/scenario.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace comera::server {
namespace {

class Maker {
 public:
  Maker(Scenario::Kind kind, uint64_t seed) : random_(seed) {
    scenario_.kind = kind;
  }

  Scenario Make() {
    switch (scenario_.kind) {
      case Scenario::kMixed:
      case Scenario::kPriorities:
      case Scenario::kBorrowed:
        AddCluster(2 + Below(4), 8);
        return Mixed();
      case Scenario::kForever:
        AddCluster(2 + Below(3), 6);
        return Forever();
      case Scenario::kWide:
        AddCluster(2 + Below(2), 4);
        return Wide();
      case Scenario::kBacklog:
        AddCluster(2 + Below(3), 8);
        return Backlog();
    }
    return scenario_;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % n); }

  void AddCluster(int workers, int most_slots) {
    for (int i = 0; i < workers; ++i) {
      PlannedWorker worker;
      worker.slots = 1 + Below(most_slots);
      worker.rack = Below(3) - 1;
      if (scenario_.kind == Scenario::kMixed && Below(4) == 0) {
        worker.unfit = 1 + Below(worker.slots);
        worker.unfit_from = Below(200);
        worker.unfit_until = worker.unfit_from + 1 + Below(60);
      }
      scenario_.workers.push_back(worker);
    }
  }

  void AddQueues() {
    const bool guarantees = scenario_.kind != Scenario::kPriorities;
    const int slots = scenario_.slots();
    const int count = 1 + Below(3);
    for (int i = 0; i <= count; ++i) {
      QueueShare queue;
      queue.weight = 1 + Below(3);
      if (guarantees && i > 0)
        queue.guaranteed_processes = Below(slots) / count;
      if (i > 0 && Below(4) == 0) {
        queue.limit = std::max(1, queue.guaranteed_processes + Below(slots));
      }
      scenario_.queues.push_back(queue);
    }
  }

  PlannedJob Job(int minute) {
    const int slots = scenario_.slots();
    PlannedJob job;
    job.minute = minute;
    job.queue = Below(static_cast<int>(scenario_.queues.size()));
    job.user = Below(3);
    job.priority = 10 * Below(3);
    job.processes = 1 + (Below(2) == 0 ? Below(slots) : Below((slots + 3) / 4));
    if (job.processes > 1 && Below(3) == 0) {
      job.sizes = {job.processes};
      for (int size = job.processes / 2; size > 0; size /= 2) {
        if (job.sizes.size() < 3) job.sizes.push_back(size);
      }
    }
    job.length = Below(5) == 0 ? 60 + Below(200) : 1 + Below(40);
    job.word = static_cast<PlannedJob::Word>(Below(4));
    job.preemptible = Below(6) != 0;
    return job;
  }

  Scenario Mixed() {
    AddQueues();
    const int jobs = 3 + Below(20);
    int minute = 0;
    for (int i = 0; i < jobs; ++i) {
      if (Below(3) == 0) minute += Below(40);
      scenario_.jobs.push_back(Job(minute));
      PlannedJob& job = scenario_.jobs.back();
      if (scenario_.kind != Scenario::kBorrowed) continue;
      // Borrowers first, for long.
      job.queue = i < jobs / 2 ? 0 : 1;
      job.priority = 10 * Below(2);
      if (i < jobs / 2) {
        job.minute = minute = 0;
        job.length = 400;
      }
    }
    Close();
    return scenario_;
  }

  Scenario Forever() {
    AddQueues();
    const int jobs = 2 + Below(3 * scenario_.slots());
    for (int i = 0; i < jobs; ++i) {
      scenario_.jobs.push_back(Job(0));
      scenario_.jobs.back().length = 1'000'000;
      scenario_.jobs.back().word = PlannedJob::kSilent;
    }
    // Within patience, which changes the order.
    scenario_.minutes = 350;
    return scenario_;
  }

  Scenario Wide() {
    const int slots = scenario_.slots();
    for (int i = 0; i < 3; ++i) {
      scenario_.queues.push_back(QueueShare());
      scenario_.queues[i].weight = 1 + Below(2);
      if (i > 0) scenario_.queues[i].guaranteed_processes = slots / 4;
    }
    scenario_.minutes = 10 * 60;
    double work = 0;
    while (work < 1.3 * slots * scenario_.minutes) {
      PlannedJob job = Job(static_cast<int>(work / slots / 1.3));
      job.processes = 1;
      job.sizes.clear();
      job.priority = 0;
      job.length = 1 + Below(30);
      if (job.word == PlannedJob::kLie) job.word = PlannedJob::kSilent;
      work += job.length;
      scenario_.jobs.push_back(job);
    }
    // What is nobody's guarantee.
    PlannedJob wide;
    wide.minute = 10;
    wide.queue = Below(3);
    wide.processes = slots - 2 * (slots / 4);
    wide.length = 60;
    Insert(wide);
    return scenario_;
  }

  Scenario Backlog() {
    const int queues = 2 + Below(3);
    const int slots = scenario_.slots();
    scenario_.minutes = 24 * 60;
    double weights = 0;
    for (int i = 0; i < queues; ++i) {
      QueueShare queue;
      queue.weight = 1 + Below(5);
      weights += queue.weight;
      scenario_.queues.push_back(queue);
    }
    // Queue after queue, so that the order of acceptance favours the first. All
    // came seven hours ago.
    for (int i = 0; i < queues; ++i) {
      for (double work = 0; work < 1.5 * slots * scenario_.minutes;) {
        PlannedJob job;
        job.minute = -7 * 60;
        job.queue = i;
        job.user = Below(3);
        job.length = 10 + Below(50);
        if (scenario_.queues[i].weight / weights * slots > 12) {
          job.processes = 1 + Below(2);
        }
        job.word = static_cast<PlannedJob::Word>(Below(3));
        work += job.length * job.processes;
        scenario_.jobs.push_back(job);
      }
    }
    return scenario_;
  }

  void Insert(const PlannedJob& job) {
    const auto later = [&](const PlannedJob& other) {
      return other.minute > job.minute;
    };
    scenario_.jobs.insert(
        std::find_if(scenario_.jobs.begin(), scenario_.jobs.end(), later), job);
  }

  // Time for all jobs one after the other, and for what preemption adds.
  void Close() {
    int minutes = scenario_.jobs.back().minute + 300;
    for (const PlannedJob& job : scenario_.jobs) {
      minutes += 20 + 2 * job.length * job.processes / job.min_processes();
    }
    scenario_.minutes = minutes;
  }

  std::mt19937_64 random_;
  Scenario scenario_;
};

}  // namespace

int Scenario::slots() const {
  int sum = 0;
  for (const PlannedWorker& worker : workers) sum += worker.slots;
  return sum;
}

std::string Scenario::Text() const {
  std::string text = absl::StrCat(
      "  Scenario s;\n  s.kind = static_cast<Scenario::Kind>(",
      static_cast<int>(kind), ");\n  s.minutes = ", minutes, ";\n");
  for (const PlannedWorker& w : workers) {
    absl::StrAppend(&text, "  s.workers.push_back({", w.slots, ", ", w.rack,
                    ", ", w.unfit, ", ", w.unfit_from, ", ", w.unfit_until,
                    "});\n");
  }
  for (const QueueShare& q : queues) {
    absl::StrAppend(&text, "  s.queues.push_back({", q.guaranteed_processes,
                    ", ", q.limit, ", ", q.weight, "});\n");
  }
  for (const PlannedJob& j : jobs) {
    absl::StrAppend(&text, "  s.jobs.push_back({", j.minute, ", ", j.queue,
                    ", ", j.user, ", ", j.priority, ", ", j.processes, ", {",
                    absl::StrJoin(j.sizes, ", "), "}, ", j.length,
                    ", static_cast<PlannedJob::Word>(",
                    static_cast<int>(j.word), "), ",
                    j.preemptible ? "true" : "false", "});\n");
  }
  return text;
}

Scenario MakeScenario(Scenario::Kind kind, uint64_t seed) {
  return Maker(kind, seed).Make();
}

}  // namespace comera::server
