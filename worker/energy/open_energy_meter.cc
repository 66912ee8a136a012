// Puts the meters of processors and a GPU together.
#include "worker/energy/open_energy_meter.h"

#include <utility>
#include <vector>

#include "worker/energy/nvml_meter.h"
#include "worker/energy/rapl_meter.h"

namespace comera::energy {
namespace {

class SumOfMeters final : public EnergyMeter {
 public:
  explicit SumOfMeters(std::vector<std::unique_ptr<EnergyMeter>> meters)
      : meters_(std::move(meters)) {}

  double Joules() override {
    double sum = 0;
    for (const auto& meter : meters_) sum += meter->Joules();
    return sum;
  }

 private:
  const std::vector<std::unique_ptr<EnergyMeter>> meters_;
};

}  // namespace

std::unique_ptr<EnergyMeter> OpenEnergyMeter(const EnergySources& sources) {
  std::vector<std::unique_ptr<EnergyMeter>> meters;
  const auto add = [&](std::unique_ptr<EnergyMeter> meter) {
    if (meter != nullptr) meters.push_back(std::move(meter));
  };
  if (sources.processors) add(OpenRaplMeter(sources.powercap));
  if (!sources.gpu.empty()) add(OpenNvmlMeter(sources.gpu, sources.nvml));
  if (meters.empty()) return nullptr;
  return std::make_unique<SumOfMeters>(std::move(meters));
}

}  // namespace comera::energy
