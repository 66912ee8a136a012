// Reads the energy counter of a GPU through NVML. Names and layouts are those of
// nvml.h.
#include "worker/energy/nvml_meter.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/numbers.h"

namespace comera::energy {
namespace {

constexpr int kSuccess = 0;
constexpr double kMilli = 1e-3;

using Device = struct DeviceTag*;

// NVML, from being loaded to being unloaded.
class Library {
 public:
  explicit Library(const std::string& name)
      : library_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    Find("nvmlInit_v2", &init_);
    Find("nvmlShutdown", &shutdown_);
    Find("nvmlDeviceGetHandleByUUID", &by_uuid_);
    Find("nvmlDeviceGetHandleByIndex_v2", &by_index_);
    Find("nvmlDeviceGetTotalEnergyConsumption", &energy_);
    initialised_ = init_ != nullptr && shutdown_ != nullptr &&
                   by_uuid_ != nullptr && by_index_ != nullptr &&
                   energy_ != nullptr && init_() == kSuccess;
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (initialised_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }

  bool initialised() const { return initialised_; }

  bool FindGpu(const std::string& gpu, Device* device) const {
    unsigned index = 0;
    return (absl::SimpleAtoi(gpu, &index)
                ? by_index_(index, device)
                : by_uuid_(gpu.c_str(), device)) == kSuccess;
  }

  // Since the driver was loaded.
  bool Read(Device device, unsigned long long* millijoules) const {
    return energy_(device, millijoules) == kSuccess;
  }

 private:
  template <typename Function>
  void Find(const char* name, Function** function) {
    *function = reinterpret_cast<Function*>(dlsym(library_, name));
  }

  void* const library_;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*by_uuid_)(const char*, Device*) = nullptr;
  int (*by_index_)(unsigned, Device*) = nullptr;
  int (*energy_)(Device, unsigned long long*) = nullptr;
  bool initialised_ = false;
};

class NvmlMeter final : public EnergyMeter {
 public:
  NvmlMeter(std::unique_ptr<Library> library, Device device,
            unsigned long long first)
      : library_(std::move(library)), device_(device), last_(first) {}

  double Joules() override {
    unsigned long long now = 0;
    if (!library_->Read(device_, &now)) return joules_;
    // A driver that was loaded anew counts from 0.
    if (now > last_) joules_ += kMilli * static_cast<double>(now - last_);
    last_ = now;
    return joules_;
  }

 private:
  const std::unique_ptr<Library> library_;
  const Device device_;
  unsigned long long last_;
  double joules_ = 0;
};

}  // namespace

std::unique_ptr<EnergyMeter> OpenNvmlMeter(const std::string& gpu,
                                           const std::string& library) {
  auto nvml = std::make_unique<Library>(library);
  Device device = nullptr;
  unsigned long long first = 0;
  if (!nvml->initialised() || !nvml->FindGpu(gpu, &device) ||
      !nvml->Read(device, &first)) {
    return nullptr;
  }
  return std::make_unique<NvmlMeter>(std::move(nvml), device, first);
}

}  // namespace comera::energy
