// Puts together what a program finds in its environment.
#include "worker/trainer/program/program_environment.h"

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {
namespace {

using Variables = std::map<std::string, std::string>;

void AddTargets(const v1::JobSpec& spec, Variables* variables) {
  if (!spec.objective().has_late()) return;
  const v1::LateStage& late = spec.objective().late();
  // A model's numbers are float32.
  const int64_t parameters =
      late.has_target_bytes()
          ? late.target_bytes() / static_cast<int64_t>(sizeof(float))
          : late.target_parameters();
  (*variables)["COMERA_TARGET_LOSS"] =
      absl::StrFormat("%.17g", late.target_loss());
  (*variables)["COMERA_TARGET_PARAMETERS"] = absl::StrCat(parameters);
}

// The port follows the last colon; the host of an IPv6 address is in brackets.
std::pair<std::string, std::string> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {std::move(host),
          colon == std::string::npos ? "" : address.substr(colon + 1)};
}

}  // namespace

std::vector<std::string> ProgramEnvironment(const TrainerTask& task,
                                            const ProgramPlaces& places,
                                            const std::string& master,
                                            const char* const* own) {
  Variables variables;
  for (; *own != nullptr; ++own) {
    const std::pair<absl::string_view, absl::string_view> both =
        absl::StrSplit(absl::string_view(*own), absl::MaxSplits('=', 1));
    variables[std::string(both.first)] = std::string(both.second);
  }
  // What Python prints is read while it runs.
  variables["PYTHONUNBUFFERED"] = "1";
  // Its caches belong to no folder of a dataset.
  variables["PYTHONDONTWRITEBYTECODE"] = "1";
  // Members on one machine meet on loopback, wherever its name leads.
  if (task.host().empty()) variables["GLOO_SOCKET_IFNAME"] = "lo";
  const v1::ProgramSpec& program = task.spec().program();
  for (const auto& [name, value] : program.environment()) {
    variables[name] = value;
  }
  for (const auto& [name, path] : program.data()) {
    variables[absl::StrCat("COMERA_DATA_", absl::AsciiStrToUpper(name))] = path;
  }
  AddTargets(task.spec(), &variables);
  const auto [host, port] = SplitAddress(master);
  variables["MASTER_ADDR"] = host;
  variables["MASTER_PORT"] = port;
  variables["RANK"] = absl::StrCat(task.rank());
  variables["WORLD_SIZE"] = absl::StrCat(task.world_size());
  variables["LOCAL_RANK"] = absl::StrCat(task.local_rank());
  variables["LOCAL_WORLD_SIZE"] = absl::StrCat(task.local_world_size());
  variables["COMERA_JOB"] = task.job();
  variables["COMERA_ATTEMPT"] = absl::StrCat(task.attempt());
  variables["COMERA_RUN_EVENTS"] = places.events;
  variables["COMERA_RUN_CHECKPOINTS"] = places.checkpoints;
  variables["COMERA_RUN_CHECKPOINT_EVERY"] =
      absl::StrCat(task.spec().checkpoint().every_steps());
  variables["COMERA_RUN_MODEL"] = places.model;
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) {
    environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

}  // namespace comera::trainer
