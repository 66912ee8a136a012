// Reads the energy counters of processors from Linux' powercap files.
#include "worker/energy/rapl_meter.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace comera::energy {
namespace {

constexpr double kMicro = 1e-6;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> Number(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(FirstLine(path), &number) || number < 0) {
    return std::nullopt;
  }
  return number;
}

// One counter, in microjoules.
struct Zone {
  std::string counter;  // its file
  int64_t wraps_at = 0;
  int64_t last = 0;
};

class RaplMeter final : public EnergyMeter {
 public:
  explicit RaplMeter(std::vector<Zone> zones) : zones_(std::move(zones)) {}

  double Joules() override {
    for (Zone& zone : zones_) {
      const std::optional<int64_t> now = Number(zone.counter);
      if (!now.has_value()) continue;
      int64_t used = *now - zone.last;
      if (used < 0) used += zone.wraps_at;
      if (used > 0) joules_ += kMicro * static_cast<double>(used);
      zone.last = *now;
    }
    return joules_;
  }

 private:
  std::vector<Zone> zones_;
  double joules_ = 0;
};

}  // namespace

std::unique_ptr<EnergyMeter> OpenRaplMeter(const std::string& root) {
  std::vector<Zone> zones;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root, error), end;
       !error && it != end; it.increment(error)) {
    // Others, e.g. intel-rapl-mmio:0, count the same packages once more.
    if (!absl::StartsWith(it->path().filename().string(), "intel-rapl:")) {
      continue;
    }
    const std::string folder = it->path().string();
    // Packages include their cores. "psys" includes the packages.
    const std::string name = FirstLine(folder + "/name");
    if (!absl::StartsWith(name, "package") && name != "dram") continue;
    Zone zone;
    zone.counter = folder + "/energy_uj";
    const std::optional<int64_t> now = Number(zone.counter);
    if (!now.has_value()) continue;
    zone.last = *now;
    zone.wraps_at = Number(folder + "/max_energy_range_uj").value_or(0);
    zones.push_back(std::move(zone));
  }
  if (zones.empty()) return nullptr;
  return std::make_unique<RaplMeter>(std::move(zones));
}

}  // namespace comera::energy
