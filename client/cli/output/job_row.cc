// Formats a job's progress, loss, size and details.

#include "client/cli/output/job_row.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/plot.h"
#include "client/cli/output/quality_text.h"
#include "client/cli/output/text_format.h"
#include "proto/target_quality.h"

namespace comera::client {
namespace {

constexpr int kBar = 10;

std::string Arrow(const std::string& value, const std::string& target) {
  return target.empty() ? value : absl::StrCat(value, "→", target);
}

}  // namespace

double ShareOfSteps(const v1::JobProgress& progress) {
  if (progress.total_steps() <= 0) return 0;
  return std::clamp(static_cast<double>(progress.step()) /
                        static_cast<double>(progress.total_steps()),
                    0.0, 1.0);
}

std::string LossAndTarget(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  std::string loss = "-";
  if (progress.has_validation_loss()) {
    loss = FormatFigure(progress.validation_loss());
  } else if (progress.loss() > 0) {
    loss = FormatFigure(progress.loss());
  }
  // Before the first report all targets of a list are still to come.
  const TargetQuality own = QualityOf(job.spec().objective().late());
  if (progress.target_loss() > 0) {
    return Arrow(loss, FormatFigure(progress.target_loss()));
  }
  if (own.kind == v1::Target::TARGET_QUALITY_NOT_SET) return loss;
  const std::string target = QualityText(own.kind, own.value);
  return Arrow(loss, own.kind == v1::Target::kTargetLoss
                         ? target
                         : absl::StrCat(QualityName(own.kind), " ", target));
}

std::string SizeAndTarget(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  const int64_t target = progress.target_size_parameters();
  return Arrow(
      progress.size_parameters() > 0
          ? FormatShort(static_cast<double>(progress.size_parameters()))
          : "-",
      target > 0 ? FormatShort(static_cast<double>(target)) : "");
}

std::vector<std::string> JobHeader() {
  return {"ID",  "NAME",  "STATE", "PROGRESS", "LOSS→TARGET", "SIZE→TARGET",
          "ETA", "QUEUE", "PRIO",  "PROCS",    "AGE",         "REASON"};
}

std::vector<std::string> JobDispensable() {
  return {"PRIO", "QUEUE", "AGE",         "REASON",     "PROCS",
          "NAME", "ETA",   "SIZE→TARGET", "LOSS→TARGET"};
}

std::vector<std::string> JobRow(const v1::Job& job, absl::Time now) {
  const v1::JobProgress& progress = job.progress();
  return {LastSegment(job.name()),
          job.spec().display_name().empty()
              ? "-"
              : Printable(job.spec().display_name()),
          StateText(job),
          progress.total_steps() > 0
              ? absl::StrFormat("%3.0f%% %s", 100 * ShareOfSteps(progress),
                                Bar(ShareOfSteps(progress), kBar))
              : "-",
          LossAndTarget(job),
          SizeAndTarget(job),
          job.state() == v1::RUNNING && progress.has_eta()
              ? DurationText(ToDuration(progress.eta()))
              : "-",
          Printable(job.spec().queue()),
          absl::StrCat(job.spec().priority()),
          absl::StrCat(std::max(1, job.spec().resources().processes())),
          DurationText(now - ToTime(job.create_time())),
          Printable(job.reason())};
}

std::vector<StyledLine> JobDetails(const v1::Job& job, absl::Time now,
                                   int width) {
  std::vector<StyledLine> lines;
  const auto add = [&](const std::string& key, const std::string& value,
                       Tone tone = Tone::kPlain) {
    if (value.empty()) return;
    lines.push_back(
        {{absl::StrFormat("%-12s", key), Tone::kFaint}, {value, tone}});
  };
  const v1::JobProgress& progress = job.progress();
  const std::string state = StateText(job);
  lines.push_back({});
  add("job", job.name(), Tone::kStrong);
  add("name", Printable(job.spec().display_name()));
  add("state", state, ToneOfState(state));
  add("reason", Printable(job.reason()));
  if (progress.total_steps() > 0) {
    add("progress", absl::StrFormat("%s %d/%d",
                                    Bar(ShareOfSteps(progress),
                                        std::clamp(width - 36, 8, 40)),
                                    progress.step(), progress.total_steps()));
    add("stage", v1::Stage_Name(progress.stage()));
    if (progress.loss() > 0) add("training", FormatFigure(progress.loss()));
    add("loss", LossAndTarget(job));
    add("size", SizeAndTarget(job) + " parameters");
    if (progress.samples_per_second() > 0) {
      add("speed",
          absl::StrFormat("%.1f samples/s", progress.samples_per_second()));
    }
    if (progress.has_eta() && job.state() == v1::RUNNING) {
      add("ETA", DurationText(ToDuration(progress.eta())));
    }
  }
  add("queue", absl::StrCat(Printable(job.spec().queue()), ", priority ",
                            job.spec().priority()));
  add("processes",
      absl::StrCat(std::max(1, job.spec().resources().processes())));
  add("attempt", absl::StrCat(job.attempt()));
  add("user", Printable(job.user()));
  add("sweep", job.sweep());
  add("age", DurationText(now - ToTime(job.create_time())));
  for (const auto& [key, value] : job.spec().labels()) {
    add("label", Printable(absl::StrCat(key, "=", value)));
  }
  return lines;
}

}  // namespace comera::client
