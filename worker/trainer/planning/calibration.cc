// Reads and writes the measured speed of a machine.
#include "worker/trainer/planning/calibration.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMaxFileBytes = 1 << 16;

struct Field {
  const char* name;
  double kernels::MachineSpeed::*value;
  double low, high;  // what a machine can have
};
constexpr Field kFields[] = {
    {"square_rate", &kernels::MachineSpeed::square_rate, 1e6, 1e18},
    {"skinny_rate", &kernels::MachineSpeed::skinny_rate, 1e6, 1e18},
    {"call_seconds", &kernels::MachineSpeed::call_seconds, 1e-9, 1},
    {"bytes_per_second", &kernels::MachineSpeed::bytes_per_second, 1e6, 1e15},
    {"math_rate", &kernels::MachineSpeed::math_rate, 1e5, 1e16},
    {"random_rate", &kernels::MachineSpeed::random_rate, 1e5, 1e16},
};
// A GPU has these as well.
constexpr Field kGpuFields[] = {
    {"misaligned_rate", &kernels::MachineSpeed::misaligned_rate, 1e6, 1e18},
    {"fused_rate", &kernels::MachineSpeed::fused_rate, 1e6, 1e18},
    {"fused_seconds", &kernels::MachineSpeed::fused_seconds, 0, 1},
    {"scalar_rate", &kernels::MachineSpeed::scalar_rate, 1e6, 1e18},
    {"bf16_gain", &kernels::MachineSpeed::bf16_gain, 0, 100},
};

}  // namespace

Machine CpuMachine(int threads) {
  std::string model = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    model = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    break;
  }
  Machine machine;
  machine.name = absl::StrCat(model, ", ", threads, " threads");
  machine.defaults.threads = threads;
  return machine;
}

Machine GpuMachine(const std::string& device, kernels::GpuProducts products) {
  constexpr const char* kNames[] = {"FP32", "TF32", "BF16"};
  Machine machine;
  machine.name = absl::StrCat(device, ", ", kNames[static_cast<int>(products)]);
  machine.defaults = kernels::TypicalGpu(products);
  machine.gpu = true;
  return machine;
}

std::string CalibrationJson(const std::string& machine,
                            const kernels::MachineSpeed& speed) {
  Json json = {
      {"version", kVersion}, {"machine", machine}, {"threads", speed.threads}};
  for (const Field& field : kFields) json[field.name] = speed.*field.value;
  if (speed.gpu) {
    json["gpu"] = true;
    for (const Field& field : kGpuFields) {
      json[field.name] = speed.*field.value;
    }
  }
  // A processor's name may hold anything.
  return JsonText(json, 2) + "\n";
}

absl::StatusOr<kernels::MachineSpeed> ParseCalibration(
    const std::string& text, const std::string& machine) {
  const auto bad = [](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("calibration: ", what));
  };
  if (text.size() > kMaxFileBytes) return bad("the file is too large");
  const Json json = ParseOrderedJson(text);
  if (!json.is_object()) return bad("no JSON object");
  const auto version = json.find("version");
  if (version == json.end() || *version != kVersion) {
    return bad("another version");
  }
  const auto name = json.find("machine");
  if (name == json.end() || *name != machine) return bad("of another machine");
  kernels::MachineSpeed speed;
  const auto threads = json.find("threads");
  if (threads == json.end() || !threads->is_number_integer() || *threads < 1 ||
      *threads > 1 << 16) {
    return bad("threads");
  }
  speed.threads = threads->get<int>();
  const auto read = [&](absl::Span<const Field> fields) -> absl::Status {
    for (const Field& field : fields) {
      const auto found = json.find(field.name);
      if (found == json.end() || !found->is_number()) {
        return bad(absl::StrCat(field.name, " is missing"));
      }
      const double value = found->get<double>();
      if (!(value >= field.low && value <= field.high)) {
        return bad(absl::StrCat(field.name, ": ", value, " is outside [",
                                field.low, ", ", field.high, "]"));
      }
      speed.*field.value = value;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read(kFields));
  const auto gpu = json.find("gpu");
  speed.gpu = gpu != json.end() && *gpu == true;
  if (speed.gpu) RETURN_IF_ERROR(read(kGpuFields));
  return speed;
}

std::string CalibrationPath(const std::string& cache_dir,
                            const std::string& machine) {
  return absl::StrCat(cache_dir, "/calibration-",
                      Sha256Hex(machine).substr(0, 16), ".json");
}

absl::Status SaveCalibration(const std::string& cache_dir,
                             const std::string& machine,
                             const kernels::MachineSpeed& speed) {
  RETURN_IF_ERROR(MakeDirectories(cache_dir));
  return WriteFileAtomically(CalibrationPath(cache_dir, machine),
                             CalibrationJson(machine, speed));
}

kernels::MachineSpeed LoadCalibration(const std::string& cache_dir,
                                      const Machine& machine,
                                      std::string* why) {
  why->clear();
  if (cache_dir.empty()) return machine.defaults;
  const std::string path = CalibrationPath(cache_dir, machine.name);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return machine.defaults;
  absl::StatusOr<kernels::MachineSpeed> speed =
      text.ok() ? ParseCalibration(*text, machine.name) : text.status();
  if (speed.ok() && machine.gpu && !speed->gpu) {
    speed = absl::InvalidArgumentError(
        "calibration: lacks what a GPU's has; measure again");
  }
  if (speed.ok()) return *speed;
  *why = absl::StrCat(path, ": ", std::string(speed.status().message()));
  return machine.defaults;
}

}  // namespace comera::trainer
