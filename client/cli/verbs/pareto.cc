// comera pareto: computes the Pareto front over sweeps and jobs.
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/sweep_connection.h"
#include "client/cli/verbs/verbs.h"
#include "common/files.h"

namespace comera::client {
namespace {

constexpr int kPlotHeight = 14;
constexpr int kMaxPlotWidth = 100;

struct Arguments {
  std::vector<std::string> names;
  std::string svg;
  std::string reference;
};

// Resolves the arguments to names. A bare id is a sweep's if there is such a
// sweep, else a job's. A single sweep is also returned.
absl::Status Resolve(const Arguments& arguments, SweepClient* client,
                     v1::ComputeFrontRequest* request,
                     std::optional<v1::Sweep>* single) {
  for (const std::string& name : arguments.names) {
    if (absl::StartsWith(name, "jobs/")) {
      request->add_names(name);
      continue;
    }
    const auto sweep_name = SweepNameFrom(name);
    if (!sweep_name.ok()) return sweep_name.status();
    absl::StatusOr<v1::Sweep> sweep = client->Get(*sweep_name);
    if (sweep.ok()) {
      request->add_names(*sweep_name);
      if (arguments.names.size() == 1) *single = *std::move(sweep);
    } else if (absl::IsNotFound(sweep.status()) &&
               !absl::StartsWith(name, "sweeps/")) {
      request->add_names(absl::StrCat("jobs/", name));
    } else {
      return sweep.status();
    }
  }
  return absl::OkStatus();
}

bool ParseReference(const std::string& text, v1::ReferencePoint* reference) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  double loss = 0;
  int64_t size = 0;
  if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &loss) ||
      !absl::SimpleAtoi(parts[1], &size) || !(loss > 0) || size <= 0) {
    return false;
  }
  reference->set_validation_loss(loss);
  reference->set_size_parameters(size);
  return true;
}

int Pareto(const Arguments& arguments, const Session& session) {
  v1::ComputeFrontRequest request;
  if (!arguments.reference.empty() &&
      !ParseReference(arguments.reference, request.mutable_reference())) {
    return session.Fail(
        "--reference must be LOSS,PARAMETERS, both above 0, e.g. 6.0,1200000",
        kExitUsage);
  }
  for (const std::string& name : arguments.names) {
    const absl::Status sane = absl::StartsWith(name, "jobs/")
                                  ? Session::JobNameFrom(name).status()
                                  : SweepNameFrom(name).status();
    if (!sane.ok()) {
      return session.Fail(std::string(sane.message()), kExitUsage);
    }
  }
  const auto client = ConnectSweeps(session);
  if (!client.ok()) return session.FailRpc(client.status());
  std::optional<v1::Sweep> single;
  absl::Status status = Resolve(arguments, client->get(), &request, &single);
  if (!status.ok()) return session.FailRpc(status);
  const absl::StatusOr<v1::SweepFront> front = (*client)->ComputeFront(request);
  if (!front.ok()) return session.FailRpc(front.status());

  std::vector<PlotPoint> points;
  if (single) {
    *single->mutable_front() = *front;
    points = PlotPoints(*single);
  } else {
    for (const v1::FrontPoint& point : front->points()) {
      points.push_back({point.point().validation_loss(),
                        static_cast<double>(point.point().size_parameters()),
                        true, LastSegment(point.job())});
    }
  }
  if (!arguments.svg.empty()) {
    const std::string title = single && !single->spec().display_name().empty()
                                  ? single->spec().display_name()
                                  : absl::StrJoin(request.names(), ", ");
    status = WriteFileAtomically(arguments.svg, ParetoSvg(points, title));
    if (!status.ok()) {
      return session.Fail(std::string(status.message()), kExitClientError);
    }
    session.Note(absl::StrCat("written: ", arguments.svg));
  }
  if (session.output != OutputFormat::kTable) {
    session.Print(*front, /*one_line=*/false);
    return kExitOk;
  }
  std::ostream& out = *session.env.out;
  out << FrontTable(*front, single ? &*single : nullptr, session.Layout());
  if (const std::string line = HypervolumeLine(*front); !line.empty()) {
    out << line << "\n";
  }
  const int width = std::min(session.env.width - 1, kMaxPlotWidth);
  const bool color = session.Color();
  for (const std::string& line : Scatter(points, width, kPlotHeight, color)) {
    out << line << "\n";
  }
  out << std::flush;
  return kExitOk;
}

}  // namespace

Verb ParetoVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"pareto",
               "Show the Pareto front, validation loss against size, of sweeps "
               "and jobs",
               {},
               nullptr};
  verb.arguments = {
      {"names",
       "Ids of sweeps or jobs",
       &arguments->names,
       true,
       {},
       Names::kJobOrSweep},
      {"--svg", "Also draw it into this file", &arguments->svg, false, {}},
      {"--reference",
       "Corner of the hyper-volume, LOSS,PARAMETERS (default: of a model that "
       "knows only label frequencies, at the dense size)",
       &arguments->reference,
       false,
       {}},
  };
  verb.examples =
      R"(  comera pareto 4f2x7k3m5q6a --svg front.svg
  comera pareto sweeps/4f2x7k3m5q6a jobs/9s1d0p8w6e2r --reference 6.0,1200000)";
  verb.run = [=] { return Pareto(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
