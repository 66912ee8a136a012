// Connects to the sweep service and formats fronts.

#include "client/cli/session/sweep_connection.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/text_format.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"
#include "proto/resource_names.h"

namespace comera::client {
namespace {

std::string RunLabel(const v1::Sweep* sweep, int run) {
  if (run < 0) return sweep == nullptr ? "-" : "early stage";
  if (sweep == nullptr || run >= sweep->runs_size()) return absl::StrCat(run);
  const std::string& label = sweep->runs(run).label();
  return label.empty() ? absl::StrCat("run ", run) : label;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SweepClient>> ConnectSweeps(
    const Session& session) {
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, session.Channel());
  return std::make_unique<SweepClient>(std::move(channel),
                                       session.ClientOptions());
}

absl::StatusOr<std::string> SweepNameFrom(const std::string& argument) {
  const std::string name =
      argument.rfind("sweeps/", 0) == 0 ? argument : SweepName(argument);
  if (!ParseSweepName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", Printable(argument), "` is no sweep id ([a-z0-9-], at most 63)"));
  }
  return name;
}

std::vector<PlotPoint> PlotPoints(const v1::Sweep& sweep) {
  std::set<std::pair<double, int64_t>> front;
  for (const v1::FrontPoint& point : sweep.front().points()) {
    front.insert(
        {point.point().validation_loss(), point.point().size_parameters()});
  }
  std::vector<PlotPoint> points;
  const auto add = [&](const v1::ParetoPoint& point, int run) {
    points.push_back(
        {point.validation_loss(), static_cast<double>(point.size_parameters()),
         front.count({point.validation_loss(), point.size_parameters()}) > 0,
         RunLabel(&sweep, run)});
  };
  for (const v1::SweepStage& stage : sweep.stages()) {
    for (const v1::ParetoPoint& point : stage.points()) add(point, -1);
  }
  for (const v1::SweepRun& run : sweep.runs()) {
    for (const v1::ParetoPoint& point : run.points()) add(point, run.index());
  }
  std::set<std::pair<double, int64_t>> targets;
  for (const v1::SweepRun& run : sweep.runs()) {
    const v1::JobProgress& progress = run.progress();
    if (progress.target_loss() <= 0 || progress.target_size_parameters() <= 0 ||
        !targets
             .insert(
                 {progress.target_loss(), progress.target_size_parameters()})
             .second) {
      continue;
    }
    PlotPoint target;
    target.loss = progress.target_loss();
    target.size = static_cast<double>(progress.target_size_parameters());
    target.label = RunLabel(&sweep, run.index());
    target.target = true;
    points.push_back(target);
  }
  return points;
}

std::string FrontTable(const v1::SweepFront& front, const v1::Sweep* sweep,
                       const TableLayout& layout) {
  std::vector<std::vector<std::string>> rows = {
      {"PARAMETERS", "BYTES", "LOSS", "STEP", "RUN", "JOB"}};
  for (const v1::FrontPoint& point : front.points()) {
    const v1::ParetoPoint& p = point.point();
    rows.push_back({FormatCount(p.size_parameters()),
                    FormatBytes(4.0 * static_cast<double>(p.size_parameters())),
                    FormatFigure(p.validation_loss()), absl::StrCat(p.step()),
                    Printable(RunLabel(sweep, point.run())),
                    point.job().empty() ? "-" : LastSegment(point.job())});
  }
  return FormatTable(rows, layout, {"STEP", "BYTES"}).value_or("");
}

std::string HypervolumeLine(const v1::SweepFront& front) {
  if (!front.has_reference()) return "";
  return absl::StrFormat(
      "hyper-volume %s of the area below loss %s and %s parameters",
      FormatFigure(front.hypervolume_ratio()),
      FormatFigure(front.reference().validation_loss()),
      FormatCount(front.reference().size_parameters()));
}

}  // namespace comera::client
