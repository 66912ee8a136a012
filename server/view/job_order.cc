// Sorts jobs by what their rows in a list show.
#include "server/view/job_order.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace comera::server {
namespace {

// A job beside what it is sorted by: by the number, then by the text.
struct Keyed {
  std::optional<double> number;
  std::string text;
  NumberedJob job;
};

std::optional<double> Share(const v1::JobProgress& progress) {
  if (progress.total_steps() <= 0) return std::nullopt;
  return static_cast<double>(progress.step()) /
         static_cast<double>(progress.total_steps());
}

std::optional<double> Loss(const v1::JobProgress& progress) {
  if (progress.has_validation_loss()) return progress.validation_loss();
  if (progress.step() == 0) return std::nullopt;
  return progress.loss();
}

std::string ShownName(const v1::Job& job) {
  const std::string& name = job.spec().display_name();
  return absl::AsciiStrToLower(name.empty() ? job.name() : name);
}

}  // namespace

absl::StatusOr<JobOrder> JobOrder::Parse(const std::string& text) {
  if (text.empty()) return JobOrder(Field::kCreated, true);
  const std::pair<const char*, Field> fields[] = {
      {"created", Field::kCreated}, {"name", Field::kName},
      {"state", Field::kState},     {"progress", Field::kProgress},
      {"loss", Field::kLoss},       {"size", Field::kSize}};
  absl::string_view name(text.data(), text.size());
  const bool descending = absl::ConsumeSuffix(&name, " desc");
  for (const auto& [known, field] : fields) {
    if (name == known) return JobOrder(field, descending);
  }
  return absl::InvalidArgumentError(
      "order_by: must be created, name, state, progress, loss or size, with "
      "` desc` behind it for the other direction");
}

void JobOrder::Sort(std::vector<NumberedJob>* jobs) const {
  std::vector<Keyed> keyed;
  keyed.reserve(jobs->size());
  for (NumberedJob& numbered : *jobs) {
    const v1::Job& job = *numbered.job;
    Keyed entry;
    entry.number = 0;
    switch (field_) {
      case Field::kCreated:
        entry.number = static_cast<double>(numbered.serial);
        break;
      case Field::kName:
        entry.text = ShownName(job);
        break;
      case Field::kState:
        entry.number = job.state();
        break;
      case Field::kProgress:
        entry.number = Share(job.progress());
        break;
      case Field::kLoss:
        entry.number = Loss(job.progress());
        break;
      case Field::kSize:
        entry.number = static_cast<double>(job.progress().size_parameters());
        if (entry.number == 0) entry.number.reset();
        break;
    }
    entry.job = std::move(numbered);
    keyed.push_back(std::move(entry));
  }
  std::sort(keyed.begin(), keyed.end(), [this](const Keyed& a, const Keyed& b) {
    if (a.number.has_value() != b.number.has_value()) {
      return a.number.has_value();
    }
    const Keyed& first = descending_ ? b : a;
    const Keyed& second = descending_ ? a : b;
    if (first.number != second.number) return first.number < second.number;
    if (first.text != second.text) return first.text < second.text;
    return a.job.serial > b.job.serial;
  });
  for (size_t i = 0; i < keyed.size(); ++i)
    (*jobs)[i] = std::move(keyed[i].job);
}

}  // namespace comera::server
