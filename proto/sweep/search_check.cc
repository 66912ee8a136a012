// Checks the specification of a search.
#include "proto/sweep/search_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "proto/sweep/search_portfolio.h"
#include "proto/sweep/search_target.h"

namespace comera {
namespace {

constexpr int64_t kMaxSteps = 1'000'000'000;

}  // namespace

void CheckSearch(const v1::SweepSpec& spec, SpecChecker& check) {
  const v1::JobSpec& job = spec.job();
  check.Require(!spec.has_grid(), "grid",
                "excludes compression.method AUTO, which chooses the runs; its "
                "candidates can be given as a list");
  check.Require(!spec.has_random(), "random",
                "excludes compression.method AUTO, which chooses the runs");
  check.Require(!spec.has_halving(), "halving",
                "excludes compression.method AUTO, which stops runs itself");
  check.Require(!spec.stop_dominated(), "stop_dominated",
                "excludes compression.method AUTO, which stops runs by rules "
                "of its own");
  if (spec.search().candidates() != 0) {
    check.Range("search.candidates", spec.search().candidates(), 2,
                kMaxCandidates);
  }
  for (int i = 0; i < spec.search().methods_size(); ++i) {
    const auto method = spec.search().methods(i);
    check.Require(method != v1::CompressionSpec::AUTO &&
                      method != v1::CompressionSpec::METHOD_UNSPECIFIED,
                  absl::StrCat("search.methods[", i, "]"),
                  "is no method that can be tried");
  }
  const v1::Budget& budget = job.budget();
  switch (budget.limit_case()) {
    case v1::Budget::kTime:
      check.Require(budget.time().seconds() > 0, "job.budget.time",
                    "must be at least a second");
      break;
    case v1::Budget::kProcessorTime:
      check.Require(budget.processor_time().seconds() > 0,
                    "job.budget.processor_time", "must be at least a second");
      break;
    case v1::Budget::kSteps:
      check.Range("job.budget.steps", budget.steps(), 1, kMaxSteps);
      break;
    case v1::Budget::LIMIT_NOT_SET:
      check.Add("job.budget",
                "is missing: time, steps or processor_time, what the search "
                "may spend");
      break;
  }
  // The candidates' widths and steps are counted out before any of their jobs
  // is validated.
  const v1::ModelSpec& model = job.model();
  check.Range("job.model.layers", model.layers(), 0, 1000);
  check.Range("job.model.hidden", model.hidden(), 0, 65536);
  check.Range("job.model.ffn", model.ffn(), 0, 1 << 20);
  check.Range("job.model.heads", model.heads(), 0, 1024);
  check.Require(job.training().max_tokens() == 0, "job.training.max_tokens",
                "excludes compression.method AUTO: job.budget says what the "
                "search may spend");
  check.Range("job.objective.early.steps", job.objective().early().steps(), 0,
              kMaxSteps);
  check.Range("job.objective.late.max_steps",
              job.objective().late().max_steps(), 0, kMaxSteps);
  const v1::LateStage& late = job.objective().late();
  check.Require(late.targets().empty(), "job.objective.late.targets",
                "excludes compression.method AUTO: a search has one target");
  check.Require(!late.has_target_ratio(), "job.objective.late.target_ratio",
                "is a share of one model's size, and a search compares models "
                "of different sizes: give target_parameters or target_bytes");
  const SearchTarget target = SearchTargetOf(late);
  check.Require(
      target.has_quality || target.parameters > 0 || late.has_target_ratio(),
      "job.objective.late",
      "names no target: a search needs a quality (target_loss, "
      "target_accuracy, ...), a size (target_parameters, target_bytes), or "
      "both");
}

}  // namespace comera
